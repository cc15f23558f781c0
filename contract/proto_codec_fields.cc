#include "contract/proto_codec_fields.h"

#include "absl/strings/escaping.h"
#include "absl/types/span.h"
#include "contract/proto_codec.h"

namespace tensorkv {

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

std::string EntryName(int index, absl::string_view key) {
  // Statuses travel in HTTP/2 headers, which are small.
  constexpr size_t kMostShown = 128;
  return absl::StrCat("entry ", index, " (\"",
                      absl::CHexEscape(key.substr(0, kMostShown)),
                      key.size() > kMostShown ? "...\")" : "\")");
}

}  // namespace tensorkv
