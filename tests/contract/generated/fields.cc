#include "tests/contract/generated/fields.h"

#include "absl/types/span.h"

namespace tensorkv {

absl::StatusOr<Shape> DecodeShape(
    const google::protobuf::RepeatedField<int64_t>& proto) {
  return Shape::Create(absl::MakeConstSpan(proto.data(), proto.size()));
}

void EncodeShape(const Shape& shape,
                 google::protobuf::RepeatedField<int64_t>* proto) {
  proto->Add(shape.dimensions().begin(), shape.dimensions().end());
}

absl::StatusOr<Worker> DecodeWorker(const v1::Worker& proto) {
  if (proto.has_rank()) return Worker{proto.rank(), proto.epoch()};
  return absl::InvalidArgumentError("worker.rank: missing");
}

}  // namespace tensorkv
