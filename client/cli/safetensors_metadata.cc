#include "client/cli/safetensors_metadata.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

// The bytes of a header's length, after which its JSON begins.
constexpr size_t kLengthBytes = 8;
// That of the headers of SafetensorsHeader.
constexpr size_t kHeaderAlignment = 4096;
constexpr char kMember[] = "__metadata__";

nlohmann::json Parsed(absl::string_view text) {
  return nlohmann::json::parse(text.begin(), text.end(), nullptr,
                               /*allow_exceptions=*/false);
}

}  // namespace

bool IsSafetensorsMetadata(absl::string_view text) {
  const nlohmann::json json = Parsed(text);
  return json.is_object() &&
         std::all_of(json.begin(), json.end(),
                     [](const auto& each) { return each.is_string(); });
}

std::string SafetensorsMetadata(absl::string_view header) {
  const nlohmann::json json = Parsed(header.substr(kLengthBytes));
  const auto metadata = json.find(kMember);
  return metadata == json.end() ? "" : metadata->dump();
}

std::string WithSafetensorsMetadata(std::string header,
                                    absl::string_view metadata) {
  if (metadata.empty()) return header;
  const bool is_empty = header[kLengthBytes + 1] == '}';
  std::string member =
      absl::StrCat("\"", kMember, "\":", metadata, is_empty ? "" : ",");
  // Blanks keep the elements where they may be read past the system's cache.
  member.insert(0, kHeaderAlignment - member.size() % kHeaderAlignment, ' ');
  header.insert(kLengthBytes + 1, member);
  const uint64_t length = header.size() - kLengthBytes;
  std::memcpy(header.data(), &length, kLengthBytes);
  return header;
}

}  // namespace tensorkv
