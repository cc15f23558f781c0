#include "service/rpc/handlers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "contract/any_call.h"
#include "contract/messages_of.h"
#include "service/rpc/message_codec.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {
namespace {

// Bound what a call may have that is handled on gRPC's threads: 1 MiB is
// decoded in about 0.1 ms, and 1024 keys are read or changed in less than a
// millisecond.
constexpr int64_t kMaxBytesInline = 1 << 20;
constexpr size_t kMaxFieldsInline = 1024;
// Servers send each other ranges of 1 MiB, and what says which they are.
constexpr int64_t kMaxPeerBytesInline = 2 * kMaxBytesInline;
// So many bytes have fewer entries.
constexpr int64_t kMaxBytesUncounted = 4 << 10;

// Makes calls of one kind by what makes calls of any.
template <typename Request, typename Ask>
auto Asking(Ask ask) {
  return [ask](const Request& request,
               const CallContext& context) -> absl::StatusOr<ReplyTo<Request>> {
    ReplyTo<Request> reply;
    RETURN_IF_ERROR(ask(AnyCall(request, reply), context));
    return reply;
  };
}

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

// Returns the limits of a reply of which the caller takes so many bytes; 0
// states none.
MessageLimits ReplyLimits(MessageLimits limits, uint64_t max_reply_bytes) {
  if (max_reply_bytes > 0) {
    limits.max_message_bytes =
        std::min(limits.max_message_bytes, max_reply_bytes);
  }
  return limits;
}

constexpr uint32_t kDefaultNamespacesOfPage = 100;
constexpr uint32_t kMaxNamespacesOfPage = 1000;

// Bounds the bytes of the token, which is a name.
constexpr uint64_t kMaxTokenBytes = 2048;

const std::string& NameOf(const v1::KeyStatus& status) { return status.key(); }
const std::string& NameOf(const v1::NamespaceStatus& status) {
  return status.name();
}
const std::string& NameOf(const v1::CheckpointStatus& status) {
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

int PageSizeOf(const ListNamespacesRequest& request) {
  return static_cast<int>(
      request.page_size() == 0
          ? kDefaultNamespacesOfPage
          : std::min(request.page_size(), kMaxNamespacesOfPage));
}

// Returns the page that the request asks for. `statuses` follow its token, in
// order of their names.
ListNamespacesReply PageOf(std::vector<NamespaceStatus> statuses,
                           const ListNamespacesRequest& request) {
  const int page_size = PageSizeOf(request);
  ListNamespacesReply page;
  for (NamespaceStatus& status : statuses) {
    if (page.namespaces_size() == page_size) {
      page.set_next_page_token(page.namespaces(page_size - 1).name());
      break;
    }
    *page.add_namespaces() = std::move(status);
  }
  return page;
}

}  // namespace

Threads Handler::ThreadsFor(const grpc::ByteBuffer& bytes) const {
  const auto size = static_cast<int64_t>(bytes.Length());
  if (size <= max_bytes_inline &&
      (size <= kMaxBytesUncounted ||
       !HasMoreFieldsThan(kMaxFieldsInline, bytes))) {
    return Threads::kGrpc;
  }
  return threads;
}

bool Handler::IsLong(const grpc::ByteBuffer& bytes) const {
  return long_if_set != 0 && HasFieldSet(long_if_set, bytes);
}

Handlers::Handlers(HandlerDependencies dependencies,
                   const MessageLimits& limits)
    : store_(*dependencies.store),
      namespaces_(*dependencies.namespaces),
      incarnation_(*dependencies.incarnation),
      limits_(limits),
      decoder_(dependencies.staging, limits) {
  AddDataHandlers();
  AddNamespaceHandlers();
  AddMembershipHandlers();
  // Whatever else goes on, a server says what it is.
#define TENSORKV_ADD(name, ...)                                              \
  AddAsk<name##Request>(Asking<name##Request>(dependencies.ask_server),      \
                        std::is_same_v<name##Request, DescribeServerRequest> \
                            ? kMaxBytesInline                                \
                            : -1);
  TENSORKV_CHECKPOINT_METHODS(TENSORKV_ADD)
  TENSORKV_SERVER_METHODS(TENSORKV_ADD)
#undef TENSORKV_ADD
  if (dependencies.ask_peer) {
    for (const Method method : kAllMethods) {
      if (ServiceOf(method) != Service::kPeer) continue;
      handlers_[static_cast<size_t>(method)].run =
          std::bind_front(dependencies.ask_peer, method);
    }
  }
  // A page may have to end early.
  const auto list = Asking<ListCheckpointsRequest>(dependencies.ask_server);
  AddAnswer(Method::kListCheckpoints, -1,
            [this, list](grpc::ByteBuffer* bytes,
                         const CallContext& context) -> Answer {
              ListCheckpointsRequest request;
              RETURN_IF_ERROR(Parse(bytes, limits_, &request));
              ASSIGN_OR_RETURN(ListCheckpointsReply page,
                               list(request, context));
              FitPage(limits_, *page.mutable_checkpoints(), page);
              return Serialize(page, limits_);
            });
  ChooseThreads();
}

void Handlers::ChooseThreads() {
  const auto choose = [this](Method method, Threads threads) {
    handlers_[static_cast<size_t>(method)].threads = threads;
  };
#define TENSORKV_CHOOSE(name, ...) choose(Method::k##name, Threads::kDisk);
  TENSORKV_CHECKPOINT_METHODS(TENSORKV_CHOOSE)
#undef TENSORKV_CHOOSE
  choose(Method::kResizeCluster, Threads::kCluster);
#define TENSORKV_CHOOSE(name, ...) choose(Method::k##name, Threads::kCluster);
  TENSORKV_MOVE_METHODS(TENSORKV_CHOOSE)
#undef TENSORKV_CHOOSE
#define TENSORKV_CHOOSE(name, ...)                                   \
  handlers_[static_cast<size_t>(Method::k##name)].max_bytes_inline = \
      kMaxPeerBytesInline;
  TENSORKV_MIRROR_METHODS(TENSORKV_CHOOSE)
#undef TENSORKV_CHOOSE
  choose(Method::kUpdateNamespace, Threads::kLong);
  choose(Method::kSetRule, Threads::kLong);
  choose(Method::kUnsetRule, Threads::kLong);
  choose(Method::kSetMultipliers, Threads::kLong);
  choose(Method::kUnsetMultipliers, Threads::kLong);
  choose(Method::kSetHyperparameters, Threads::kLong);
  handlers_[static_cast<size_t>(Method::kStat)].long_if_set =
      v1::StatRequest::kComputeDigestsFieldNumber;
}

void Handlers::AddDataHandlers() {
  Add(Method::kInit, &Handlers::Init);
  Add(Method::kPush, &Handlers::Push);
  Add(Method::kPull, &Handlers::Pull);
  Add(Method::kPushPull, &Handlers::PushPull);
  Add(Method::kPushRows, &Handlers::PushRows);
  Add(Method::kPullRows, &Handlers::PullRows);
  Add(Method::kSetState, &Handlers::SetState);
  Add(Method::kGetState, &Handlers::GetState);
  AddVerb(store_, &TensorStore::Delete);
  AddAnswer(Method::kList, -1, std::bind_front(&Handlers::List, this));
  AddVerb(store_, &TensorStore::Stat);
}

void Handlers::AddNamespaceHandlers() {
  AddVerb(namespaces_, &NamespaceAdmin::CreateNamespace);
  AddVerb(namespaces_, &NamespaceAdmin::DescribeNamespace);
  AddAnswer(Method::kListNamespaces, -1,
            std::bind_front(&Handlers::ListNamespaces, this));
  AddVerb(namespaces_, &NamespaceAdmin::DeleteNamespace);
#define TENSORKV_ADD(name, ...) AddVerb(namespaces_, &NamespaceAdmin::name);
  TENSORKV_NAMESPACE_METHODS(TENSORKV_ADD)
#undef TENSORKV_ADD
}

void Handlers::AddMembershipHandlers() {
  // The reply is not the store's alone.
  AddAsk<JoinRequest>(std::bind_front(&Handlers::Join, this));
  // Whatever else goes on, leases are renewed.
  AddVerb(namespaces_, &NamespaceAdmin::KeepAlive, kMaxBytesInline);
  Add(Method::kBarrier, &Handlers::Barrier);
}

void Handlers::Add(Method method, Waiting handler) {
  handlers_[static_cast<size_t>(method)] = {
      .max_bytes_inline = kMaxBytesInline,
      .run = std::bind_front(handler, this)};
}

template <typename Function>
void Handlers::AddAnswer(Method method, int64_t max_bytes_inline,
                         Function answer) {
  handlers_[static_cast<size_t>(method)] = {
      .max_bytes_inline = max_bytes_inline,
      .run = [answer](grpc::ByteBuffer* bytes, const CallContext& context,
                      Responder respond) {
        std::move(respond)(answer(bytes, context));
      }};
}

template <typename Request, typename Function>
void Handlers::AddAsk(Function ask, int64_t max_bytes_inline) {
  using Messages = MessagesOf<Request>;
  AddAnswer(
      kMethodOf<Request>, max_bytes_inline,
      [this, ask](grpc::ByteBuffer* bytes,
                  const CallContext& context) -> Answer {
        typename Messages::Request message;
        RETURN_IF_ERROR(Parse(bytes, limits_, &message));
        ASSIGN_OR_RETURN(Request request, ValueOf<Request>(std::move(message)));
        ReplyTo<Request> reply;
        RETURN_IF_ERROR(SetReply(ask(std::move(request), context), reply));
        return Encode<typename Messages::Response>(reply, limits_);
      });
}

template <typename Store, typename Reply, typename Request>
void Handlers::AddVerb(Store& store,
                       Reply (Store::*verb)(Request, const CallContext&),
                       int64_t max_bytes_inline) {
  AddAsk<std::remove_cvref_t<Request>>(std::bind_front(verb, &store),
                                       max_bytes_inline);
}

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
  AnswerPush(std::move(request), std::move(context), std::move(respond));
}

void Handlers::PushRows(grpc::ByteBuffer* bytes, CallContext context,
                        Responder respond) {
  AnswerPush(Decode<v1::PushRowsRequest>(bytes, limits_), std::move(context),
             std::move(respond));
}

void Handlers::AnswerPush(absl::StatusOr<PushRequest> request,
                          CallContext context, Responder respond) {
  if (!request.ok()) return std::move(respond)(request.status());
  store_.Push(*std::move(request), std::move(context),
              Encoded<PushReply>(limits_, EncodeResults, std::move(respond)));
}

void Handlers::Pull(grpc::ByteBuffer* bytes, CallContext context,
                    Responder respond) {
  AnswerPull(&TensorStore::Pull, DecodePull(bytes, limits_), std::move(context),
             std::move(respond));
}

void Handlers::PullRows(grpc::ByteBuffer* bytes, CallContext context,
                        Responder respond) {
  absl::StatusOr<PullRequest> request =
      Decode<v1::PullRowsRequest>(bytes, limits_);
  AnswerPull(&TensorStore::Pull, std::move(request), std::move(context),
             std::move(respond));
}

void Handlers::GetState(grpc::ByteBuffer* bytes, CallContext context,
                        Responder respond) {
  AnswerPull(&TensorStore::GetState,
             Decode<v1::GetStateRequest>(bytes, limits_), std::move(context),
             std::move(respond));
}

template <typename Request>
void Handlers::AnswerPull(void (TensorStore::*verb)(Request, CallContext,
                                                    ReplyCallback<PullReply>),
                          absl::StatusOr<Request> request, CallContext context,
                          Responder respond) {
  if (!request.ok()) return std::move(respond)(request.status());
  const MessageLimits limits = ReplyLimits(limits_, request->max_reply_bytes);
  // More cannot be sent; whether all of it can is seen when it is encoded.
  context.max_reply_bytes = limits.max_message_bytes;
  (store_.*verb)(*std::move(request), std::move(context),
                 Encoded<PullReply>(limits, EncodeValues, std::move(respond)));
}

void Handlers::SetState(grpc::ByteBuffer* bytes, CallContext context,
                        Responder respond) {
  absl::StatusOr<SetStateRequest> request =
      Decode<v1::SetStateRequest>(bytes, limits_);
  if (!request.ok()) return std::move(respond)(request.status());
  store_.SetState(*std::move(request), std::move(context),
                  Encoded<SetStateReply>(
                      limits_, Encode<v1::SetStateResponse, SetStateReply>,
                      std::move(respond)));
}

void Handlers::PushPull(grpc::ByteBuffer* bytes, CallContext context,
                        Responder respond) {
  absl::StatusOr<PushPullRequest> request = decoder_.PushPull(bytes, context);
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
  BarrierRequest request;
  absl::Status parsed = Parse(bytes, limits_, &request);
  if (!parsed.ok()) return std::move(respond)(std::move(parsed));
  namespaces_.Barrier(
      std::move(request), std::move(context),
      Encoded<BarrierReply>(limits_, Encode<v1::BarrierResponse, BarrierReply>,
                            std::move(respond)));
}

Handlers::Answer Handlers::List(grpc::ByteBuffer* bytes,
                                const CallContext& context) {
  ListRequest request;
  RETURN_IF_ERROR(Parse(bytes, limits_, &request));
  ASSIGN_OR_RETURN(ListReply page, store_.List(request, context));
  FitPage(limits_, *page.mutable_keys(), page);
  return Serialize(page, limits_);
}

Handlers::Answer Handlers::ListNamespaces(grpc::ByteBuffer* bytes,
                                          const CallContext& context) {
  ListNamespacesRequest request;
  RETURN_IF_ERROR(Parse(bytes, limits_, &request));
  // One more than the page tells whether there is another.
  ASSIGN_OR_RETURN(std::vector<NamespaceStatus> statuses,
                   namespaces_.ListNamespaces(
                       request.page_token(), PageSizeOf(request) + 1,
                       [](absl::string_view) { return true; }, context));
  ListNamespacesReply page = PageOf(std::move(statuses), request);
  FitPage(limits_, *page.mutable_namespaces(), page);
  return Serialize(page, limits_);
}

absl::StatusOr<JoinReply> Handlers::Join(const JoinRequest& request,
                                         const CallContext& context) {
  ASSIGN_OR_RETURN(JoinReply reply, namespaces_.Join(request, context));
  reply.set_server_incarnation(incarnation_.id());
  return reply;
}

}  // namespace tensorkv
