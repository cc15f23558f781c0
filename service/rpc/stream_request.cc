#include "service/rpc/stream_request.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/rpc/message_codec.h"
#include "tensor/proto_codec.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {
namespace {

// As data.proto says of CallId.
constexpr size_t kMaxClientIdBytes = 64;

// The identity of a stripe's call, which says which streams belong together.
absl::Status NameStripedCall(const std::optional<CallId>& call_id,
                             StreamRequest& stream) {
  if (stream.stripe.count <= 1) return absl::OkStatus();
  if (!call_id || call_id->client_id.empty()) {
    return absl::InvalidArgumentError(
        "stripe: expected a call_id that names the call, got none");
  }
  if (call_id->client_id.size() > kMaxClientIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("call_id.client_id: expected 1 to ", kMaxClientIdBytes,
                     " bytes, got ", call_id->client_id.size()));
  }
  stream.striped_call_id = call_id;
  return absl::OkStatus();
}

// A chunk whose first form is a manifest: of Init, Push, PushPull.
template <typename Chunk>
absl::StatusOr<StreamRequest> DecodeManifest(const MessageLimits& limits,
                                             grpc::ByteBuffer* bytes) {
  Chunk chunk;
  RETURN_IF_ERROR(Parse(bytes, limits, &chunk));
  if (!chunk.has_manifest()) {
    return absl::InvalidArgumentError(
        "first message of the stream: expected a manifest, got none");
  }
  StreamRequest stream;
  if (chunk.manifest().stripe().count() > 1) {
    stream.manifest = chunk.manifest().request().SerializeAsString();
  }
  ASSIGN_OR_RETURN(auto manifest,
                   FromProto(std::move(*chunk.mutable_manifest())));
  stream.stripe = manifest.stripe;
  RETURN_IF_ERROR(NameStripedCall(manifest.request.call_id, stream));
  stream.request = std::move(manifest.request);
  return stream;
}

absl::StatusOr<StreamRequest> DecodePull(const MessageLimits& limits,
                                         grpc::ByteBuffer* bytes) {
  v1::PullStreamRequest message;
  RETURN_IF_ERROR(Parse(bytes, limits, &message));
  StreamRequest stream;
  if (message.stripe().count() > 1) {
    stream.manifest = message.request().SerializeAsString();
  }
  ASSIGN_OR_RETURN(PullStreamRequest pull, FromProto(message));
  stream.stripe = pull.stripe;
  stream.max_part_bytes = pull.max_part_bytes;
  RETURN_IF_ERROR(NameStripedCall(pull.call_id, stream));
  stream.request = std::move(pull.request);
  return stream;
}

template <typename Entries>
std::vector<Tensor*> TensorsOfEntries(Entries& entries) {
  std::vector<Tensor*> tensors;
  tensors.reserve(entries.size());
  for (auto& entry : entries) tensors.push_back(&entry.tensor);
  return tensors;
}

}  // namespace

absl::StatusOr<StreamRequest> DecodeStreamRequest(Method method,
                                                  const MessageLimits& limits,
                                                  grpc::ByteBuffer* bytes) {
  switch (method) {
    case Method::kInitStream:
      return DecodeManifest<v1::InitChunk>(limits, bytes);
    case Method::kPushStream:
    case Method::kPushPullStream:
      return DecodeManifest<v1::PushChunk>(limits, bytes);
    case Method::kPullStream:
      return DecodePull(limits, bytes);
    default:
      return absl::InternalError(absl::StrCat(NameOf(method), " is no stream"));
  }
}

std::vector<Tensor*> TensorsOf(StreamedRequest& request) {
  if (auto* init = std::get_if<InitRequest>(&request)) {
    return TensorsOfEntries(init->entries);
  }
  if (auto* push = std::get_if<PushRequest>(&request)) {
    return TensorsOfEntries(push->entries);
  }
  return {};
}

}  // namespace tensorkv
