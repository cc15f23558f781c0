#include "contract/proto_codec_fields.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/types/span.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

// 10,000 years: protobuf's bound on durations.
constexpr int64_t kMostSeconds = 315576000000;

}  // namespace

absl::StatusOr<Shape> DecodeShape(
    const google::protobuf::RepeatedField<int64_t>& proto) {
  return Shape::Create(absl::MakeConstSpan(proto.data(), proto.size()));
}

void EncodeShape(const Shape& shape,
                 google::protobuf::RepeatedField<int64_t>* proto) {
  proto->Add(shape.dimensions().begin(), shape.dimensions().end());
}

absl::StatusOr<OnExisting> DecodeOnExisting(v1::OnExisting proto) {
  switch (proto) {
    case v1::ON_EXISTING_UNSPECIFIED:
    case v1::ON_EXISTING_FAIL:
      return OnExisting::kFail;
    case v1::ON_EXISTING_KEEP:
      return OnExisting::kKeep;
    case v1::ON_EXISTING_REPLACE:
      return OnExisting::kReplace;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "on_existing: unknown number ", static_cast<int>(proto)));
  }
}

v1::OnExisting EncodeOnExisting(OnExisting on_existing) {
  switch (on_existing) {
    case OnExisting::kFail:
      break;
    case OnExisting::kKeep:
      return v1::ON_EXISTING_KEEP;
    case OnExisting::kReplace:
      return v1::ON_EXISTING_REPLACE;
  }
  return v1::ON_EXISTING_FAIL;
}

absl::StatusOr<Worker> DecodeWorker(const v1::Worker& proto) {
  if (proto.has_rank()) return Worker{proto.rank(), proto.epoch()};
  return absl::InvalidArgumentError("worker.rank: missing");
}

void EncodeWorker(const Worker& worker, v1::Worker* proto) {
  proto->set_rank(worker.rank);
  proto->set_epoch(worker.epoch);
}

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

void EncodeDuration(absl::Duration duration,
                    google::protobuf::Duration* proto) {
  const absl::Duration most = absl::Seconds(kMostSeconds);
  duration = std::clamp(duration, -most, most);
  proto->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

std::string EntryName(int index, absl::string_view key) {
  // Statuses travel in HTTP/2 headers, which are small.
  constexpr size_t kMostShown = 128;
  return absl::StrCat("entry ", index, " (\"",
                      absl::CHexEscape(key.substr(0, kMostShown)),
                      key.size() > kMostShown ? "...\")" : "\")");
}

}  // namespace tensorkv
