// Decodes and encodes pieces of messages that the files of the codec share.

#ifndef TENSORKV_TESTS_CONTRACT_GENERATED_FIELDS_H_
#define TENSORKV_TESTS_CONTRACT_GENERATED_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error_from.h"
#include "base/ref_counted.h"
#include "base/status_macros.h"
#include "contract/encoding.h"
#include "contract/proto_codec.h"
#include "contract/requests.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {

// Errors: InvalidArgument for a rank above 8, a negative dimension, or a
// product that overflows.
absl::StatusOr<Shape> DecodeShape(
    const google::protobuf::RepeatedField<int64_t>& proto);
void EncodeShape(const Shape& shape,
                 google::protobuf::RepeatedField<int64_t>* proto);

// Translate the tensors of a message with their elements, or without, as
// manifests have them.
using TensorDecoder = absl::StatusOr<Tensor> (*)(v1::Tensor& proto);
using TensorEncoder = void (*)(const Tensor& tensor, v1::Tensor* proto);

// Moves the payload into the tensor. Errors: those of FromProto.
absl::StatusOr<Tensor> DecodeWithData(v1::Tensor& proto);
void EncodeWithData(const Tensor& tensor, v1::Tensor* proto);
// Errors: those of FromProto; InvalidArgument if there is data.
absl::StatusOr<Tensor> DecodeWithoutData(v1::Tensor& proto);
void EncodeWithoutData(const Tensor& tensor, v1::Tensor* proto);

// Translates the tensor of an entry or a value. Errors: those of `decode`;
// InvalidArgument if there is none.
template <typename Proto>
absl::StatusOr<Tensor> DecodeTensor(Proto& proto, TensorDecoder decode) {
  if (!proto.has_tensor()) {
    return absl::InvalidArgumentError("tensor: missing");
  }
  return decode(*proto.mutable_tensor());
}

// Translate the contribution of a PushEntry or PushRowsEntry: its tensor and,
// if it is encoded, the encoding.
// Errors: those of `decode` · InvalidArgument (no tensor; ENCODING_MALFORMED;
// those of DecodeShape) · Unimplemented (ENCODING_UNKNOWN).
template <typename Proto>
absl::Status DecodeContribution(Proto& proto, TensorDecoder decode,
                                PushEntry* entry);
template <typename Proto>
void EncodeContribution(const PushEntry& entry, TensorEncoder encode,
                        Proto* proto);

absl::StatusOr<InitRequest> DecodeInitRequest(v1::InitRequest& proto,
                                              TensorDecoder decode);
void EncodeInitRequest(const InitRequest& request, TensorEncoder encode,
                       v1::InitRequest* proto);
absl::StatusOr<PushRequest> DecodePushRequest(v1::PushRequest& proto,
                                              TensorDecoder decode);
void EncodePushRequest(const PushRequest& request, TensorEncoder encode,
                       v1::PushRequest* proto);
absl::StatusOr<PushPullRequest> DecodePushPullRequest(
    v1::PushPullRequest& proto, TensorDecoder decode);
void EncodePushPullRequest(const PushPullRequest& request, TensorEncoder encode,
                           v1::PushPullRequest* proto);
absl::StatusOr<PushRequest> DecodePushRowsRequest(v1::PushRowsRequest& proto,
                                                  TensorDecoder decode);
void EncodePushRowsRequest(const PushRequest& request, TensorEncoder encode,
                           v1::PushRowsRequest* proto);
absl::StatusOr<PullRequest> DecodePullRowsRequest(v1::PullRowsRequest& proto);
void EncodePullRowsRequest(const PullRequest& request,
                           v1::PullRowsRequest* proto);
absl::StatusOr<SetStateRequest> DecodeSetStateRequest(
    v1::SetStateRequest& proto, TensorDecoder decode);
void EncodeSetStateRequest(const SetStateRequest& request, TensorEncoder encode,
                           v1::SetStateRequest* proto);
absl::StatusOr<PullReply> DecodeValues(
    google::protobuf::RepeatedPtrField<v1::Value>& protos,
    TensorDecoder decode);
void EncodeValues(const PullReply& reply, TensorEncoder encode,
                  google::protobuf::RepeatedPtrField<v1::Value>* protos);

// Those of a reply that may have a ticket, and then no data.
template <typename Proto>
absl::StatusOr<PullReply> DecodeReply(Proto& proto) {
  ASSIGN_OR_RETURN(
      PullReply reply,
      DecodeValues(*proto.mutable_values(),
                   proto.has_ticket() ? DecodeWithoutData : DecodeWithData));
  if (proto.has_ticket()) {
    reply.ticket = {proto.ticket().id(), proto.ticket().size_bytes()};
  }
  return reply;
}
template <typename Proto>
void EncodeReply(const PullReply& reply, Proto* proto) {
  EncodeValues(reply, reply.ticket ? EncodeWithoutData : EncodeWithData,
               proto->mutable_values());
  if (!reply.ticket) return;
  proto->mutable_ticket()->set_id(reply.ticket->id);
  proto->mutable_ticket()->set_size_bytes(reply.ticket->size_bytes);
}

PushReply DecodeResults(
    const google::protobuf::RepeatedPtrField<v1::PushResult>& protos);
void EncodeResults(const PushReply& reply,
                   google::protobuf::RepeatedPtrField<v1::PushResult>* protos);

// Errors: InvalidArgument for a worker without a rank.
absl::StatusOr<Worker> DecodeWorker(const v1::Worker& proto);

template <typename Proto>
absl::StatusOr<std::optional<Worker>> DecodeWorkerIfPresent(
    const Proto& proto) {
  if (!proto.has_worker()) return std::nullopt;
  return DecodeWorker(proto.worker());
}
template <typename Proto>
void EncodeWorkerIfPresent(const std::optional<Worker>& worker, Proto* proto) {
  if (worker) SetWorker(*worker, proto->mutable_worker());
}

// Decodes every message of a list; errors name the entry.
template <
    typename Protos, typename Decode,
    typename Proto = decltype(std::declval<Protos&>()[0]),
    typename Value = typename std::invoke_result_t<Decode, Proto>::value_type>
absl::StatusOr<std::vector<Value>> DecodeAll(Protos& protos, Decode decode) {
  std::vector<Value> values;
  values.reserve(protos.size());
  for (int i = 0; i < protos.size(); ++i) {
    absl::StatusOr<Value> value = decode(protos[i]);
    if (!value.ok()) {
      std::string name = absl::StrCat("entry ", i);
      if constexpr (requires { protos[i].key(); }) {
        name = EntryName(i, protos[i].key());
      }
      return ErrorFrom(name, value.status());
    }
    values.push_back(*std::move(value));
  }
  return values;
}

}  // namespace tensorkv

#endif  // TENSORKV_TESTS_CONTRACT_GENERATED_FIELDS_H_
