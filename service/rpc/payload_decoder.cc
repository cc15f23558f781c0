#include "service/rpc/payload_decoder.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "contract/payload_reader.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "service/rpc/message_codec.h"
#include "tensor/bool_elements.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {

template <typename Decoded>
absl::Status PayloadDecoder::ReceivePayloads(grpc::ByteBuffer* bytes,
                                             Decoded& decoded,
                                             const CallContext& context) const {
  std::vector<Tensor*> tensors;
  tensors.reserve(decoded.request.entries.size());
  for (auto& entry : decoded.request.entries) tensors.push_back(&entry.tensor);
  RETURN_IF_ERROR(
      staging_.Allocate(decoded.request.name_space, tensors, context));
  grpc::ProtoBufferReader reader(bytes);
  if (!ReadPayloads(&reader, decoded.payloads, tensors)) {
    return absl::InternalError("payload: cannot be read again");
  }
  for (const Tensor* tensor : tensors) {
    const auto size = static_cast<size_t>(tensor->size_bytes());
    RETURN_IF_ERROR(CheckElements(tensor->dtype(), {tensor->data(), size}));
  }
  bytes->Clear();
  return absl::OkStatus();
}

template <typename Message, auto Read>
auto PayloadDecoder::Decode(grpc::ByteBuffer* bytes,
                            const CallContext& context) const {
  grpc::ProtoBufferReader reader(bytes);
  auto decoded = Read(&reader, bytes->Length(), limits_.max_entries);
  using Result = decltype(tensorkv::Decode<Message>(bytes, limits_));
  if (!decoded) return tensorkv::Decode<Message>(bytes, limits_);
  const absl::Status received = ReceivePayloads(bytes, *decoded, context);
  return received.ok() ? Result(std::move(decoded->request)) : Result(received);
}

absl::StatusOr<InitRequest> PayloadDecoder::Init(
    grpc::ByteBuffer* bytes, const CallContext& context) const {
  return Decode<v1::InitRequest, ReadInit>(bytes, context);
}

absl::StatusOr<PushRequest> PayloadDecoder::Push(
    grpc::ByteBuffer* bytes, const CallContext& context) const {
  return Decode<v1::PushRequest, ReadPush>(bytes, context);
}

absl::StatusOr<PushRequest> PayloadDecoder::PushPull(
    grpc::ByteBuffer* bytes, const CallContext& context) const {
  return Decode<v1::PushPullRequest, ReadPushPull>(bytes, context);
}

}  // namespace tensorkv
