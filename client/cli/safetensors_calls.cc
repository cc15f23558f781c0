#include "client/cli/safetensors_calls.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// Bounds what one call moves.
constexpr uint64_t kBytesPerCall = 64 << 20;
constexpr size_t kKeysPerCall = 1000;

// Returns those of the entries, from the first on, that one call is for.
absl::Span<const SafetensorsEntry> NextCall(
    absl::Span<const SafetensorsEntry> entries) {
  size_t num_keys = 0;
  uint64_t bytes = 0;
  while (num_keys < entries.size() && num_keys < kKeysPerCall &&
         (num_keys == 0 ||
          bytes + entries[num_keys].size_bytes() <= kBytesPerCall)) {
    bytes += entries[num_keys++].size_bytes();
  }
  return entries.subspan(0, num_keys);
}

}  // namespace

absl::Status FileError(const std::string& path, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

absl::Status InCalls(
    absl::Span<const SafetensorsEntry> entries,
    absl::FunctionRef<absl::Status(absl::Span<const SafetensorsEntry>)>
        make_call) {
  while (!entries.empty()) {
    const absl::Span<const SafetensorsEntry> next = NextCall(entries);
    RETURN_IF_ERROR(make_call(next));
    entries.remove_prefix(next.size());
  }
  return absl::OkStatus();
}

void PrintCount(absl::string_view verb, size_t num_keys,
                Invocation& invocation) {
  invocation.out << (invocation.flags.is_json()
                         ? absl::StrCat("{\"keys\":", num_keys, "}")
                         : absl::StrCat(verb, " ", num_keys, " keys"))
                 << "\n";
}

}  // namespace tensorkv
