#include "client/cli/snapshot_text.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tensorkv {

absl::StatusOr<SnapshotReference> ParseSnapshot(const std::string& text) {
  const size_t at = text.rfind('@');
  if (at == std::string::npos) return LatestSnapshot(text);
  const absl::string_view series = absl::string_view(text).substr(0, at);
  absl::string_view selector = absl::string_view(text).substr(at + 1);
  if (selector == "latest") return LatestSnapshot(series);
  const bool is_least = absl::ConsumePrefix(&selector, ">=");
  uint64_t number;
  if (!absl::SimpleAtoi(selector, &number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected SERIES, SERIES@42, SERIES@latest or SERIES@>=42, got ",
        text));
  }
  return is_least ? SnapshotAtLeast(series, number)
                  : SnapshotOf(series, number);
}

}  // namespace tensorkv
