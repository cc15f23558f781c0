#include "service/rpc/handlers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "service/rpc/message_codec.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {
namespace {

// Encodes what the store answers and passes it on.
template <typename Reply, typename Encoder>
ReplyCallback<Reply> Encoded(const MessageLimits& limits, Encoder encode,
                             Responder respond) {
  return [limits, encode,
          respond = std::move(respond)](absl::StatusOr<Reply> reply) mutable {
    if (!reply.ok()) return std::move(respond)(reply.status());
    std::move(respond)(encode(*reply, limits));
  };
}

// The limits of a reply of which the caller takes so many bytes; 0 states none.
MessageLimits ReplyLimits(MessageLimits limits, uint64_t max_reply_bytes) {
  if (max_reply_bytes > 0) {
    limits.max_message_bytes =
        std::min(limits.max_message_bytes, max_reply_bytes);
  }
  return limits;
}

constexpr uint32_t kDefaultNamespacesOfPage = 100;
constexpr uint32_t kMaxNamespacesOfPage = 1000;

// Room for the token, which is a name.
constexpr uint64_t kMaxTokenBytes = 2048;

const std::string& NameOf(const v1::KeyStatus& status) { return status.key(); }
const std::string& NameOf(const v1::NamespaceStatus& status) {
  return status.name();
}

// Ends the page earlier where its message would be over the limit; the first of
// its `entries` stays.
template <typename Page, typename Entry>
void FitPage(const MessageLimits& limits,
             google::protobuf::RepeatedPtrField<Entry>& entries, Page& page) {
  uint64_t bytes = page.ByteSizeLong() + kMaxTokenBytes;
  while (bytes > limits.max_message_bytes && entries.size() > 1) {
    bytes -= entries[entries.size() - 1].ByteSizeLong();
    entries.RemoveLast();
    page.set_next_page_token(NameOf(entries[entries.size() - 1]));
  }
}

// The page that the request asks for, of all namespaces in order of their
// names.
v1::ListNamespacesResponse PageOf(const std::vector<NamespaceStatus>& all,
                                  const ListNamespacesRequest& request) {
  const int page_size =
      static_cast<int>(request.page_size == 0
                           ? kDefaultNamespacesOfPage
                           : std::min(request.page_size, kMaxNamespacesOfPage));
  v1::ListNamespacesResponse page;
  for (const NamespaceStatus& status : all) {
    if (status.name <= request.page_token) continue;
    if (page.namespaces_size() == page_size) {
      page.set_next_page_token(page.namespaces(page_size - 1).name());
      break;
    }
    ToProto(status, page.add_namespaces());
  }
  return page;
}

}  // namespace

Handlers::Handlers(HandlerDependencies dependencies,
                   const MessageLimits& limits)
    : store_(*dependencies.store),
      namespaces_(*dependencies.namespaces),
      membership_(*dependencies.membership),
      describe_server_(std::move(dependencies.describe_server)),
      limits_(limits),
      decoder_(dependencies.staging, limits) {}

void Handlers::Init(grpc::ByteBuffer* bytes, CallContext context,
                    Responder respond) {
  absl::StatusOr<InitRequest> request = decoder_.Init(bytes, context);
  if (!request.ok()) return std::move(respond)(request.status());
  store_.Init(*std::move(request), std::move(context),
              Encoded<InitReply>(limits_, Encode<v1::InitResponse, InitReply>,
                                 std::move(respond)));
}

void Handlers::Push(grpc::ByteBuffer* bytes, CallContext context,
                    Responder respond) {
  absl::StatusOr<PushRequest> request = decoder_.Push(bytes, context);
  if (!request.ok()) return std::move(respond)(request.status());
  store_.Push(*std::move(request), std::move(context),
              Encoded<PushReply>(limits_, EncodeResults, std::move(respond)));
}

void Handlers::Pull(grpc::ByteBuffer* bytes, CallContext context,
                    Responder respond) {
  absl::StatusOr<PullRequest> request = DecodePull(bytes, limits_);
  if (!request.ok()) return std::move(respond)(request.status());
  const MessageLimits limits = ReplyLimits(limits_, request->max_reply_bytes);
  // More cannot be sent; whether all of it can is seen when it is encoded.
  context.max_reply_bytes = limits.max_message_bytes;
  store_.Pull(*std::move(request), std::move(context),
              Encoded<PullReply>(limits, EncodeValues, std::move(respond)));
}

void Handlers::PushPull(grpc::ByteBuffer* bytes, CallContext context,
                        Responder respond) {
  absl::StatusOr<PushRequest> request = decoder_.PushPull(bytes, context);
  if (!request.ok()) return std::move(respond)(request.status());
  const MessageLimits limits = ReplyLimits(limits_, request->max_reply_bytes);
  // Else a push could be made whose reply cannot be sent.
  const absl::StatusOr<uint64_t> max_reply_bytes =
      BytesForValues(request->entries.size(), limits);
  if (!max_reply_bytes.ok()) {
    return std::move(respond)(max_reply_bytes.status());
  }
  context.max_reply_bytes = *max_reply_bytes;
  store_.PushPull(*std::move(request), std::move(context),
                  Encoded<PullReply>(limits, EncodeValues, std::move(respond)));
}

void Handlers::Barrier(grpc::ByteBuffer* bytes, CallContext context,
                       Responder respond) {
  absl::StatusOr<BarrierRequest> request =
      Decode<v1::BarrierRequest>(bytes, limits_);
  if (!request.ok()) return std::move(respond)(request.status());
  membership_.Barrier(
      *std::move(request), std::move(context),
      [&limits = limits_, respond = std::move(respond)](
          absl::StatusOr<BarrierReply> reply) mutable {
        if (!reply.ok()) return std::move(respond)(reply.status());
        std::move(respond)(Serialize(v1::BarrierResponse(), limits));
      });
}

Handlers::Answer Handlers::Delete(grpc::ByteBuffer* bytes,
                                  const CallContext& context) {
  ASSIGN_OR_RETURN(DeleteRequest request,
                   Decode<v1::DeleteRequest>(bytes, limits_));
  ASSIGN_OR_RETURN(DeleteReply reply,
                   store_.Delete(std::move(request), context));
  return Encode<v1::DeleteResponse>(reply, limits_);
}

Handlers::Answer Handlers::List(grpc::ByteBuffer* bytes,
                                const CallContext& context) {
  ASSIGN_OR_RETURN(ListRequest request,
                   Decode<v1::ListRequest>(bytes, limits_));
  ASSIGN_OR_RETURN(ListReply reply, store_.List(request, context));
  v1::ListResponse page;
  ToProto(reply, &page);
  FitPage(limits_, *page.mutable_keys(), page);
  return Serialize(page, limits_);
}

Handlers::Answer Handlers::Stat(grpc::ByteBuffer* bytes,
                                const CallContext& context) {
  ASSIGN_OR_RETURN(StatRequest request,
                   Decode<v1::StatRequest>(bytes, limits_));
  ASSIGN_OR_RETURN(StatReply reply, store_.Stat(request, context));
  return Encode<v1::StatResponse>(reply, limits_);
}

Handlers::Answer Handlers::CreateNamespace(grpc::ByteBuffer* bytes,
                                           const CallContext& context) {
  ASSIGN_OR_RETURN(CreateNamespaceRequest request,
                   Decode<v1::CreateNamespaceRequest>(bytes, limits_));
  ASSIGN_OR_RETURN(CreateNamespaceReply reply,
                   namespaces_.CreateNamespace(request, context));
  return Encode<v1::CreateNamespaceResponse>(reply, limits_);
}

Handlers::Answer Handlers::DescribeNamespace(grpc::ByteBuffer* bytes,
                                             const CallContext& context) {
  v1::DescribeNamespaceRequest request;
  RETURN_IF_ERROR(Parse(bytes, limits_, &request));
  ASSIGN_OR_RETURN(NamespaceStatus status, namespaces_.DescribeNamespace(
                                               request.namespace_(), context));
  v1::DescribeNamespaceResponse response;
  ToProto(status, response.mutable_status());
  return Serialize(response, limits_);
}

Handlers::Answer Handlers::ListNamespaces(grpc::ByteBuffer* bytes,
                                          const CallContext& context) {
  ASSIGN_OR_RETURN(ListNamespacesRequest request,
                   Decode<v1::ListNamespacesRequest>(bytes, limits_));
  ASSIGN_OR_RETURN(std::vector<NamespaceStatus> all,
                   namespaces_.ListNamespaces(context));
  v1::ListNamespacesResponse page = PageOf(all, request);
  FitPage(limits_, *page.mutable_namespaces(), page);
  return Serialize(page, limits_);
}

Handlers::Answer Handlers::DeleteNamespace(grpc::ByteBuffer* bytes,
                                           const CallContext& context) {
  v1::DeleteNamespaceRequest request;
  RETURN_IF_ERROR(Parse(bytes, limits_, &request));
  RETURN_IF_ERROR(namespaces_.DeleteNamespace(request.namespace_(), context));
  return Serialize(v1::DeleteNamespaceResponse(), limits_);
}

Handlers::Answer Handlers::SetRule(grpc::ByteBuffer* bytes,
                                   const CallContext& context) {
  ASSIGN_OR_RETURN(SetRuleRequest request,
                   Decode<v1::SetRuleRequest>(bytes, limits_));
  RETURN_IF_ERROR(namespaces_.SetRule(request, context));
  return Serialize(v1::SetRuleResponse(), limits_);
}

Handlers::Answer Handlers::UnsetRule(grpc::ByteBuffer* bytes,
                                     const CallContext& context) {
  ASSIGN_OR_RETURN(UnsetRuleRequest request,
                   Decode<v1::UnsetRuleRequest>(bytes, limits_));
  RETURN_IF_ERROR(namespaces_.UnsetRule(request, context));
  return Serialize(v1::UnsetRuleResponse(), limits_);
}

Handlers::Answer Handlers::SetHyperparameters(grpc::ByteBuffer* bytes,
                                              const CallContext& context) {
  ASSIGN_OR_RETURN(SetHyperparametersRequest request,
                   Decode<v1::SetHyperparametersRequest>(bytes, limits_));
  ASSIGN_OR_RETURN(RuleSpec rule,
                   namespaces_.SetHyperparameters(request, context));
  v1::SetHyperparametersResponse response;
  ToProto(rule, response.mutable_rule());
  return Serialize(response, limits_);
}

Handlers::Answer Handlers::Join(grpc::ByteBuffer* bytes,
                                const CallContext& context) {
  ASSIGN_OR_RETURN(JoinRequest request,
                   Decode<v1::JoinRequest>(bytes, limits_));
  ASSIGN_OR_RETURN(JoinReply reply, membership_.Join(request, context));
  reply.server_incarnation = describe_server_().incarnation;
  return Encode<v1::JoinResponse>(reply, limits_);
}

Handlers::Answer Handlers::KeepAlive(grpc::ByteBuffer* bytes,
                                     const CallContext& context) {
  ASSIGN_OR_RETURN(KeepAliveRequest request,
                   Decode<v1::KeepAliveRequest>(bytes, limits_));
  ASSIGN_OR_RETURN(KeepAliveReply reply,
                   membership_.KeepAlive(request, context));
  return Encode<v1::KeepAliveResponse>(reply, limits_);
}

Handlers::Answer Handlers::Leave(grpc::ByteBuffer* bytes,
                                 const CallContext& context) {
  ASSIGN_OR_RETURN(LeaveRequest request,
                   Decode<v1::LeaveRequest>(bytes, limits_));
  RETURN_IF_ERROR(membership_.Leave(request, context));
  return Serialize(v1::LeaveResponse(), limits_);
}

Handlers::Answer Handlers::DescribeServer(grpc::ByteBuffer* bytes,
                                          const CallContext&) {
  v1::DescribeServerRequest request;
  RETURN_IF_ERROR(Parse(bytes, limits_, &request));
  return Encode<v1::DescribeServerResponse>(describe_server_(), limits_);
}

}  // namespace tensorkv
