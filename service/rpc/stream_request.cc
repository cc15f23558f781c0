#include "service/rpc/stream_request.h"

#include <openssl/sha.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/payload_reader.h"
#include "contract/stripe_range.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "service/rpc/message_codec.h"
#include "tensorkv/v1/stream.pb.h"

namespace tensorkv {
namespace {

// Returns bytes that are the same for equal messages: maps have no order.
std::string OrderedBytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream out(&bytes);
  google::protobuf::io::CodedOutputStream coded(&out);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// Returns the bytes of the call in a manifest. They begin with the kind of the
// call: of another one, the same bytes say something else.
std::string BytesOfCall(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::FieldDescriptor* const call =
      reflection.GetOneofFieldDescriptor(
          message, message.GetDescriptor()->FindOneofByName("call"));
  if (call == nullptr) return "";
  return absl::StrCat(call->name(), ":",
                      OrderedBytes(reflection.GetMessage(message, call)));
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

absl::StatusOr<Stripe> FromProto(const v1::Stripe& proto) {
  Stripe stripe;
  stripe.index = proto.index();
  if (proto.count() > 0) stripe.count = proto.count();
  stripe.group = proto.group();
  RETURN_IF_ERROR(CheckStripe(stripe));
  return stripe;
}

// Reads the stripe of a manifest.
template <typename Proto>
absl::StatusOr<Stripe> StripeIn(const Proto& proto) {
  ASSIGN_OR_RETURN(const Stripe stripe, FromProto(proto.stripe()));
  if (stripe.count > 1 && stripe.group == 0) {
    return absl::InvalidArgumentError(
        "stripe: expected a group that the call's stripes share, got none");
  }
  return stripe;
}

// Returns the error of a manifest that has no call.
absl::Status MissingCall() {
  return absl::InvalidArgumentError("call: missing");
}

// Reads a call that the generated code has parsed.
template <typename Call>
absl::StatusOr<Call> CallOf(const google::protobuf::Message& proto,
                            Elements elements) {
  const std::string bytes = proto.SerializeAsString();
  google::protobuf::io::ArrayInputStream in(bytes.data(),
                                            static_cast<int>(bytes.size()));
  // How many entries there are has been checked.
  ASSIGN_OR_RETURN(Decoded<Call> decoded,
                   ReadCall<Call>(&in, bytes.size(), UINT32_MAX, elements));
  return std::move(decoded.call);
}

absl::StatusOr<StreamedRequest> CallIn(const v1::InitManifest& manifest) {
  switch (manifest.call_case()) {
    case v1::InitManifest::kInit:
      return CallOf<InitRequest>(manifest.init(), Elements::kLeftOut);
    case v1::InitManifest::kSetState:
      return CallOf<SetStateRequest>(manifest.set_state(), Elements::kLeftOut);
    case v1::InitManifest::CALL_NOT_SET:
      break;
  }
  return MissingCall();
}

// A PushRequest whose entries have rows is that of a PushRows.
absl::StatusOr<StreamedRequest> CallIn(const v1::PushManifest& manifest) {
  switch (manifest.call_case()) {
    case v1::PushManifest::kPush:
      return CallOf<PushRequest>(manifest.push(), Elements::kLeftOut);
    case v1::PushManifest::kPushRows: {
      ASSIGN_OR_RETURN(
          PushRequest push,
          CallOf<PushRowsRequest>(manifest.push_rows(), Elements::kLeftOut));
      return push;
    }
    case v1::PushManifest::kPushPull:
      return CallOf<PushPullRequest>(manifest.push_pull(), Elements::kLeftOut);
    case v1::PushManifest::CALL_NOT_SET:
      break;
  }
  return MissingCall();
}

// Decodes what the generated code has parsed of the first message.
template <typename Proto>
absl::StatusOr<StreamRequest> StreamOf(const Proto& proto) {
  StreamRequest stream;
  stream.manifest = DigestOfCall(proto);
  ASSIGN_OR_RETURN(stream.stripe, StripeIn(proto));
  ASSIGN_OR_RETURN(stream.request, CallIn(proto));
  return stream;
}

// Decodes a chunk whose first form is a manifest: of Init, Push, PushPull.
template <typename Chunk>
absl::StatusOr<StreamRequest> DecodeManifest(const MessageLimits& limits,
                                             grpc::ByteBuffer* bytes) {
  Chunk chunk;
  RETURN_IF_ERROR(Parse(bytes, limits, &chunk));
  if (chunk.has_manifest()) return StreamOf(chunk.manifest());
  return absl::InvalidArgumentError(
      "first message of the stream: expected a manifest, got none");
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

absl::StatusOr<TicketRequest> DecodeTicketRequest(const MessageLimits& limits,
                                                  grpc::ByteBuffer* bytes) {
  v1::PullStreamRequest message;
  RETURN_IF_ERROR(Parse(bytes, limits, &message));
  ASSIGN_OR_RETURN(const Stripe stripe, FromProto(message.stripe()));
  return TicketRequest{.ticket = std::move(*message.mutable_ticket()),
                       .stripe = stripe,
                       .max_part_bytes = message.max_part_bytes()};
}

absl::StatusOr<StreamRequest> DecodeStreamRequest(Method method,
                                                  const MessageLimits& limits,
                                                  grpc::ByteBuffer* bytes) {
  switch (method) {
    case Method::kInitStream:
      return DecodeManifest<v1::InitChunk>(limits, bytes);
    case Method::kPushStream:
    case Method::kPushPullStream:
      return DecodePush(method, limits, bytes);
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
