#include "service/rpc/stream_request.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "service/rpc/message_codec.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {
namespace {

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
