// The requests and replies of calls without tensors: the generated messages
// themselves, by the names that contract/requests.h gives to all calls.

#ifndef TENSORKV_CONTRACT_MESSAGES_H_
#define TENSORKV_CONTRACT_MESSAGES_H_

#include "absl/status/statusor.h"
#include "contract/tables.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensorkv/v1/checkpoint.pb.h"
#include "tensorkv/v1/cluster.pb.h"
#include "tensorkv/v1/data.pb.h"
#include "tensorkv/v1/membership.pb.h"
#include "tensorkv/v1/namespace.pb.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {

#define TENSORKV_MESSAGES(name, ...)       \
  using name##Request = v1::name##Request; \
  using name##Reply = v1::name##Response;
TENSORKV_PLAIN_METHODS(TENSORKV_MESSAGES)
#undef TENSORKV_MESSAGES

using v1::CheckpointStatus;
using v1::KeyStatus;
using v1::NamespaceStatus;
using v1::WorkerStatus;
using ServerStatus = DescribeServerReply;

// Returns the dtype of the key; kUnknown for one that only newer servers have.
inline DType DTypeOf(const KeyStatus& status) {
  return DTypeFromNumber(status.dtype()).value_or(DType::kUnknown);
}
// Returns the shape of the key. Errors: those of Shape::Create, which clients
// have seen to in the replies that they return.
inline absl::StatusOr<Shape> ShapeOf(const KeyStatus& status) {
  return Shape::Create(status.shape());
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_MESSAGES_H_
