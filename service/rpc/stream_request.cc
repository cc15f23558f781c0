#include "service/rpc/stream_request.h"

#include <openssl/sha.h>

#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/payload_reader.h"
#include "contract/proto_codec.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "service/rpc/message_codec.h"
#include "tensorkv/v1/stream.pb.h"

namespace tensorkv {
namespace {

// Returns the bytes of the call in a manifest, or in the request of a pull.
// They begin with the kind of the call: of another one, the same bytes say
// something else.
std::string BytesOfCall(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::FieldDescriptor* const call =
      reflection.GetOneofFieldDescriptor(
          message, message.GetDescriptor()->FindOneofByName("call"));
  if (call == nullptr) return "";
  return absl::StrCat(call->name(), ":",
                      reflection.GetMessage(message, call).SerializeAsString());
}

// Returns the digest of the call, or nothing for its only stripe. It is kept
// until the others have come: a few bytes for any number of entries and ids of
// rows. Nobody can make two calls of one digest.
template <typename Proto>
std::string DigestOfCall(const Proto& proto) {
  if (proto.stripe().count() <= 1) return "";
  const std::string bytes = BytesOfCall(proto);
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// Returns whichever request the variant has.
template <typename Call>
StreamedRequest ToStreamedRequest(Call call) {
  return std::visit(
      [](auto& each) -> StreamedRequest { return std::move(each); }, call);
}

// Decodes a chunk whose first form is a manifest: of Init, Push, PushPull.
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
  stream.manifest = DigestOfCall(chunk.manifest());
  ASSIGN_OR_RETURN(auto manifest,
                   FromProto(std::move(*chunk.mutable_manifest())));
  stream.stripe = manifest.stripe;
  stream.request = ToStreamedRequest(std::move(manifest.request));
  return stream;
}

StreamRequest ToStreamRequest(PullStreamRequest pull, std::string manifest) {
  return {.request = ToStreamedRequest(std::move(pull.request)),
          .stripe = pull.stripe,
          .manifest = std::move(manifest),
          .max_part_bytes = pull.max_part_bytes,
          .allow_batches = pull.allow_batches};
}

absl::StatusOr<StreamRequest> DecodePull(const MessageLimits& limits,
                                         grpc::ByteBuffer* bytes) {
  grpc::ProtoBufferReader reader(bytes);
  std::optional<PullStreamRequest> only_stripe =
      ReadPullStream(&reader, bytes->Length(), limits.max_entries);
  if (only_stripe) {
    bytes->Clear();
    return ToStreamRequest(*std::move(only_stripe), /*manifest=*/"");
  }
  v1::PullStreamRequest message;
  RETURN_IF_ERROR(Parse(bytes, limits, &message));
  std::string manifest = DigestOfCall(message);
  ASSIGN_OR_RETURN(PullStreamRequest pull, FromProto(std::move(message)));
  return ToStreamRequest(std::move(pull), std::move(manifest));
}

// A manifest in a PushStream or PushPullStream, as `method` says.
absl::StatusOr<StreamRequest> DecodePush(Method method,
                                         const MessageLimits& limits,
                                         grpc::ByteBuffer* bytes) {
  ASSIGN_OR_RETURN(StreamRequest stream,
                   DecodeManifest<v1::PushChunk>(limits, bytes));
  const bool is_push_pull =
      std::holds_alternative<PushPullRequest>(stream.request);
  if (is_push_pull == (method == Method::kPushPullStream)) return stream;
  return absl::InvalidArgumentError(absl::StrCat(
      "manifest of a ", NameOf(method),
      is_push_pull ? ": expected a push or push_rows, got a push_pull"
                   : ": expected a push_pull, got a push or push_rows"));
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
      return DecodePush(method, limits, bytes);
    case Method::kPullStream:
      return DecodePull(limits, bytes);
    default:
      return absl::InternalError(absl::StrCat(NameOf(method), " is no stream"));
  }
}

std::vector<Tensor*> TensorsOf(StreamedRequest& request) {
  std::vector<Tensor*> tensors;
  const auto add = [&tensors](auto& call) {
    for (auto& entry : call.entries) {
      if constexpr (requires { entry.tensor; }) {
        tensors.push_back(&entry.tensor);
      }
    }
  };
  std::visit(add, request);
  return tensors;
}

std::vector<RefPtr<const RowIds>*> RowIdsOf(StreamedRequest& request) {
  std::vector<RefPtr<const RowIds>*> all;
  const auto add = [&all](auto& call) {
    for (auto& entry : call.entries) {
      if constexpr (requires { entry.rows; }) {
        if (entry.rows) all.push_back(&entry.rows);
      }
    }
  };
  std::visit(add, request);
  return all;
}

uint64_t RowIdBytes(StreamedRequest& request) {
  uint64_t bytes = 0;
  for (const RefPtr<const RowIds>* ids : RowIdsOf(request)) {
    bytes += static_cast<uint64_t>((*ids)->tensor().size_bytes());
  }
  return bytes;
}

}  // namespace tensorkv
