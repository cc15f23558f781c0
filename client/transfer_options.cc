#include "client/transfer_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/cores.h"
#include "contract/stripe_range.h"

namespace tensorkv {
namespace {

constexpr int kMaxBulkConnections = kMaxStripes;
constexpr int kMostByDefault = 4;

}  // namespace

absl::Status CheckTransferOptions(const TransferOptions& options) {
  if (options.part_bytes == 0) {
    return absl::InvalidArgumentError("part_bytes: expected at least 1, got 0");
  }
  if (options.min_stripe_bytes == 0) {
    return absl::InvalidArgumentError(
        "min_stripe_bytes: expected at least 1, got 0");
  }
  if (options.bulk_connections < 0 ||
      options.bulk_connections > kMaxBulkConnections) {
    return absl::InvalidArgumentError(
        absl::StrCat("bulk_connections: expected 0 to ", kMaxBulkConnections,
                     ", got ", options.bulk_connections));
  }
  if (options.max_idle_time <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_idle_time: expected more than zero, got ",
                     absl::FormatDuration(options.max_idle_time)));
  }
  return absl::OkStatus();
}

int NumBulkConnections(const TransferOptions& options) {
  if (options.bulk_connections > 0) return options.bulk_connections;
  return std::min(NumCores(), kMostByDefault);
}

}  // namespace tensorkv
