// Durations in messages.

#ifndef TENSORKV_CONTRACT_DURATION_H_
#define TENSORKV_CONTRACT_DURATION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace tensorkv {

// Errors: InvalidArgument, naming `field`, for what protobuf calls no valid
// duration: over 10,000 years, or seconds and nanoseconds that disagree.
absl::StatusOr<absl::Duration> DecodeDuration(
    absl::string_view field, const google::protobuf::Duration& proto);
// Returns the duration in a message that has been checked; zero for what is no
// valid duration.
absl::Duration DurationIn(const google::protobuf::Duration& proto);
// Durations over 10,000 years become that; parts of nanoseconds are cut off.
void EncodeDuration(absl::Duration duration, google::protobuf::Duration* proto);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_DURATION_H_
