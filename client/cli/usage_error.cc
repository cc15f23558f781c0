#include "client/cli/usage_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace tensorkv {
namespace {

constexpr absl::string_view kMark = "tensorkv/usage-error";

}  // namespace

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kMark, absl::Cord());
  return status;
}

absl::Status AsUsageError(absl::string_view subject,
                          const absl::Status& status) {
  if (status.ok()) return status;
  return UsageError(absl::StrCat(subject, ": ", status.message()));
}

bool IsUsageError(const absl::Status& status) {
  return status.GetPayload(kMark).has_value();
}

}  // namespace tensorkv
