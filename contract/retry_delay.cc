#include "contract/retry_delay.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "contract/length_delimited.h"
#include "google/protobuf/duration.pb.h"

namespace tensorkv {
namespace {

constexpr absl::string_view kRetryInfoTypeUrl =
    "type.googleapis.com/google.rpc.RetryInfo";
constexpr absl::Duration kLongestDelay = absl::Minutes(10);

// The field of google.rpc.RetryInfo.
constexpr int kRetryDelayField = 1;

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(delay);
  google::protobuf::Duration message;
  message.set_seconds(milliseconds / 1000);
  message.set_nanos(static_cast<int32_t>(milliseconds % 1000) * 1'000'000);
  std::string info;
  AppendField(kRetryDelayField, message.SerializeAsString(), info);
  status.SetPayload(kRetryInfoTypeUrl, absl::Cord(std::move(info)));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto info = status.GetPayload(kRetryInfoTypeUrl);
  if (!info.has_value()) return std::nullopt;
  google::protobuf::Duration message;
  bool is_duration = true;
  const bool is_message =
      ForEachField(std::string(*info), [&](int field, absl::string_view bytes) {
        if (field == kRetryDelayField) {
          is_duration &= message.ParseFromString(std::string(bytes));
        }
      });
  const absl::Duration delay =
      absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
  const bool is_valid = is_message && is_duration &&
                        delay >= absl::ZeroDuration() && delay <= kLongestDelay;
  return is_valid ? delay : absl::InfiniteDuration();
}

}  // namespace tensorkv
