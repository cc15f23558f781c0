#include "contract/length_delimited.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace tensorkv {
namespace {

constexpr int kVarintType = 0;
constexpr int kLengthType = 2;
constexpr int kTypeBits = 3;
constexpr int kBitsPerByte = 7;
constexpr uint8_t kMoreFollows = 0x80;

void AppendVarint(uint64_t number, std::string& out) {
  for (; number >= kMoreFollows; number >>= kBitsPerByte) {
    out.push_back(static_cast<char>(number | kMoreFollows));
  }
  out.push_back(static_cast<char>(number));
}

// Takes a varint off the front of `bytes`; nothing if it does not end.
std::optional<uint64_t> TakeVarint(absl::string_view& bytes) {
  uint64_t number = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += kBitsPerByte) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    number |= static_cast<uint64_t>(byte & ~kMoreFollows) << shift;
    if ((byte & kMoreFollows) == 0) return number;
  }
  return std::nullopt;
}

}  // namespace

void AppendField(int number, absl::string_view bytes, std::string& message) {
  AppendVarint(static_cast<uint64_t>(number << kTypeBits | kLengthType),
               message);
  AppendVarint(bytes.size(), message);
  message.append(bytes.data(), bytes.size());
}

bool ForEachField(
    absl::string_view message,
    absl::FunctionRef<void(int number, absl::string_view bytes)> visit) {
  while (!message.empty()) {
    const std::optional<uint64_t> tag = TakeVarint(message);
    const std::optional<uint64_t> number = TakeVarint(message);
    if (!tag.has_value() || !number.has_value()) return false;
    const int type = static_cast<int>(*tag & ((1 << kTypeBits) - 1));
    if (type == kVarintType) continue;
    if (type != kLengthType || *number > message.size()) return false;
    visit(static_cast<int>(*tag >> kTypeBits), message.substr(0, *number));
    message.remove_prefix(*number);
  }
  return true;
}

}  // namespace tensorkv
