#include "contract/duration.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace tensorkv {
namespace {

// 10,000 years: protobuf's bound on durations.
constexpr int64_t kMostSeconds = 315576000000;

}  // namespace

absl::StatusOr<absl::Duration> DecodeDuration(
    absl::string_view field, const google::protobuf::Duration& proto) {
  const int64_t seconds = proto.seconds();
  const int64_t nanos = proto.nanos();
  const bool is_valid =
      seconds >= -kMostSeconds && seconds <= kMostSeconds &&
      nanos > -1000000000 && nanos < 1000000000 &&
      (seconds == 0 || nanos == 0 || (seconds > 0) == (nanos > 0));
  if (is_valid) return absl::Seconds(seconds) + absl::Nanoseconds(nanos);
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": expected a duration, got ", seconds,
                   " seconds and ", nanos, " nanoseconds"));
}

absl::Duration DurationIn(const google::protobuf::Duration& proto) {
  return DecodeDuration("", proto).value_or(absl::ZeroDuration());
}

void EncodeDuration(absl::Duration duration,
                    google::protobuf::Duration* proto) {
  const absl::Duration most = absl::Seconds(kMostSeconds);
  duration = std::clamp(duration, -most, most);
  proto->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

}  // namespace tensorkv
