// Moments in messages.

#ifndef TENSORKV_CONTRACT_TIMESTAMP_H_
#define TENSORKV_CONTRACT_TIMESTAMP_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"

namespace tensorkv {

inline absl::Time DecodeTime(const google::protobuf::Timestamp& proto) {
  return absl::FromUnixSeconds(proto.seconds()) +
         absl::Nanoseconds(proto.nanos());
}

// Parts of nanoseconds are cut off.
inline void EncodeTime(absl::Time time, google::protobuf::Timestamp* proto) {
  constexpr int64_t kPerSecond = 1'000'000'000;
  const int64_t nanoseconds = absl::ToUnixNanos(time);
  int64_t seconds = nanoseconds / kPerSecond;
  if (nanoseconds % kPerSecond < 0) --seconds;
  proto->set_seconds(seconds);
  proto->set_nanos(static_cast<int32_t>(nanoseconds - seconds * kPerSecond));
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_TIMESTAMP_H_
