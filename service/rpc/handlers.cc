#include "service/rpc/handlers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "contract/any_call.h"
#include "contract/message_writer.h"
#include "contract/stripe_range.h"
#include "service/rpc/message_codec.h"

namespace tensorkv {
namespace {

// Bounds what a call may have that is handled on gRPC's threads: 1024 keys are
// read or changed in less than a millisecond.
constexpr size_t kMaxFieldsInline = 1024;
// Servers send each other ranges of 1 MiB, and what says which they are.
constexpr int64_t kMaxPeerBytesInline = 2 << 20;
// So many bytes have fewer entries.
constexpr int64_t kMaxBytesUncounted = 4 << 10;

// Encodes what the store answers and passes it on.
template <typename Reply, typename Encoder>
ReplyCallback<Reply> Encoded(Encoder encode, Responder respond) {
  return [encode = std::move(encode),
          respond = std::move(respond)](absl::StatusOr<Reply> reply) mutable {
    if (!reply.ok()) return std::move(respond)(reply.status());
    std::move(respond)(encode(*reply));
  };
}

// Replies with values, or with a ticket for them.
struct ValuesEncoder {
  // Decides between the two. What values take in a reply is not known exactly
  // before they are encoded.
  bool NeedsTicket(uint64_t size_bytes, size_t num_values) const {
    return ticket_from_bytes > 0 &&
           (size_bytes >= ticket_from_bytes ||
            size_bytes + (num_values + 1) * kMaxValueOverheadBytes >
                limits.max_message_bytes);
  }

  absl::StatusOr<grpc::ByteBuffer> operator()(PullReply& reply) const {
    ASSIGN_OR_RETURN(const uint64_t size_bytes,
                     TotalBytes(TensorSizes(reply.values)));
    if (!NeedsTicket(size_bytes, reply.values.size())) {
      return EncodeValues(reply, limits);
    }
    absl::StatusOr<StripedCall::Reply> held =
        tickets.Add(caller, std::move(reply));
    if (!held.ok()) {
      return is_made ? WithoutTicket(held.status()) : held.status();
    }
    const PullReply& values = std::get<PullReply>(**held);
    absl::StatusOr<grpc::ByteBuffer> encoded = EncodeValues(values, limits);
    if (!encoded.ok()) tickets.End(values.ticket->id);
    return encoded;
  }

  Tickets& tickets;
  std::string caller;
  MessageLimits limits;
  uint64_t ticket_from_bytes;
  // True if the call has had an effect by now.
  bool is_made;
};

// Has `limits` bound the reply by what the caller takes too, and the store
// refuse values that do not fit. Errors: ResourceExhausted (no reply would).
template <typename Request>
absl::Status BoundReply(const Request& request, MessageLimits& limits,
                        CallContext& context) {
  if (request.max_reply_bytes > 0) {
    limits.max_message_bytes =
        std::min(limits.max_message_bytes, request.max_reply_bytes);
  }
  // More cannot be sent; whether all of it can is seen when it is encoded.
  uint64_t bytes_for_values = limits.max_message_bytes;
  if constexpr (std::is_same_v<Request, PushPullRequest>) {
    // Else a push could be made whose reply cannot be sent.
    ASSIGN_OR_RETURN(bytes_for_values,
                     BytesForValues(request.entries.size(), limits));
  }
  if (request.ticket_from_bytes == 0) {
    context.max_reply_bytes = bytes_for_values;
  }
  return absl::OkStatus();
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

Handlers::Handlers(HandlerDependencies dependencies,
                   const MessageLimits& limits)
    : calls_(*dependencies.calls),
      incarnation_(*dependencies.incarnation),
      tickets_(*dependencies.tickets),
      limits_(limits),
      decoder_(dependencies.calls, limits) {
  AddDataHandlers();
  AddNamespaceHandlers();
  AddMembershipHandlers();
  AddServerHandlers(dependencies.server);
  if (dependencies.ask_peer) {
    for (const Method method : kAllMethods) {
      if (ServiceOf(method) != Service::kPeer) continue;
      handlers_[static_cast<size_t>(method)].run =
          std::bind_front(dependencies.ask_peer, method);
    }
  }
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
  TENSORKV_SHARE_METHODS(TENSORKV_CHOOSE)
#undef TENSORKV_CHOOSE
#define TENSORKV_CHOOSE(name, ...)                                   \
  handlers_[static_cast<size_t>(Method::k##name)].max_bytes_inline = \
      kMaxPeerBytesInline;
  TENSORKV_MIRROR_METHODS(TENSORKV_CHOOSE)
#undef TENSORKV_CHOOSE
}

void Handlers::AddDataHandlers() {
  AddRead<InitRequest>(Encode<v1::InitResponse, InitReply>);
  AddRead<PushRequest>(EncodeResults);
  AddReadOfValues<PushPullRequest>();
  AddRead<PushRowsRequest>(EncodeResults);
  AddReadOfValues<PullRequest>();
  AddReadOfValues<PullRowsRequest>();
  AddRead<SetStateRequest>(Encode<v1::SetStateResponse, SetStateReply>);
  AddReadOfValues<GetStateRequest>();
  AddPlain<DeleteRequest>();
  AddPlain<ListRequest>([](ListReply& page, const MessageLimits& limits) {
    FitPage(limits, *page.mutable_keys(), page);
    return Serialize(page, limits);
  });
  AddPlain<StatRequest>();
}

void Handlers::AddNamespaceHandlers() {
  AddPlain<CreateNamespaceRequest>();
  AddPlain<DescribeNamespaceRequest>();
  AddAnswer(Method::kListNamespaces, -1,
            std::bind_front(&Handlers::ListNamespaces, this));
  AddPlain<DeleteNamespaceRequest>();
#define TENSORKV_ADD(name, ...) AddPlain<name##Request>();
  TENSORKV_NAMESPACE_METHODS(TENSORKV_ADD)
#undef TENSORKV_ADD
}

void Handlers::AddMembershipHandlers() {
  // The reply is not the store's alone.
  AddPlain<JoinRequest>([this](JoinReply& reply, const MessageLimits& limits) {
    reply.set_server_incarnation(incarnation_.id());
    return Serialize(reply, limits);
  });
  // Whatever else goes on, leases are renewed.
  AddPlain<KeepAliveRequest>(kMaxBytesInline);
  AddPlain<BarrierRequest>(kMaxBytesInline);
}

void Handlers::AddServerHandlers(ServerAdmin* server) {
  const auto add = [&]<typename Request>(Request, auto encode) {
    // Whatever else goes on, a server says what it is.
    constexpr bool kIsInline = std::is_same_v<Request, DescribeServerRequest>;
    AddAnswer(kMethodOf<Request>, kIsInline ? kMaxBytesInline : -1,
              [this, encode, server](grpc::ByteBuffer* bytes,
                                     const CallContext& context) -> Answer {
                Request request;
                RETURN_IF_ERROR(Parse(bytes, limits_, &request));
                ASSIGN_OR_RETURN(ReplyTo<Request> reply,
                                 server->Make(request, context));
                return encode(reply, limits_);
              });
  };
#define TENSORKV_ADD(name, ...) \
  add(name##Request(), Encode<name##Reply, name##Reply>);
  TENSORKV_CHECKPOINT_METHODS(TENSORKV_ADD)
  TENSORKV_SERVER_METHODS(TENSORKV_ADD)
#undef TENSORKV_ADD
  add(ListCheckpointsRequest(),
      [](ListCheckpointsReply& page, const MessageLimits& limits) {
        FitPage(limits, *page.mutable_checkpoints(), page);
        return Serialize(page, limits);
      });
}

template <typename Request, typename Decoder, typename Encoder>
void Handlers::AddCall(Method method, Decoder decode, Encoder encode,
                       int64_t max_bytes_inline) {
  handlers_[static_cast<size_t>(method)] = {
      .max_bytes_inline = max_bytes_inline,
      .run = [this, decode, encode](grpc::ByteBuffer* bytes,
                                    CallContext context, Responder respond) {
        absl::StatusOr<CallDispatch::Admitted<Request>> call =
            decode(bytes, context);
        if (!call.ok()) return std::move(respond)(call.status());
        calls_.MakeAdmitted(*std::move(call), std::move(context),
                            Encoded<ReplyTo<Request>>(
                                [this, encode](ReplyTo<Request>& reply) {
                                  return encode(reply, limits_);
                                },
                                std::move(respond)));
      }};
}

template <typename Request>
void Handlers::AddReadOfValues() {
  using Verb = VerbRequest<Request>;
  handlers_[static_cast<size_t>(kMethodOf<Request>)] = {
      .max_bytes_inline = kMaxBytesInline,
      .run = [this](grpc::ByteBuffer* bytes, CallContext context,
                    Responder respond) {
        auto call = decoder_.Decode<Request>(bytes, context);
        if (!call.ok()) return std::move(respond)(call.status());
        ValuesEncoder encode = {
            .tickets = tickets_,
            .caller = context.caller.name,
            .limits = limits_,
            .ticket_from_bytes = (**call).ticket_from_bytes,
            .is_made = std::is_same_v<Request, PushPullRequest>};
        const absl::Status status = BoundReply(**call, encode.limits, context);
        if (!status.ok()) return std::move(respond)(status);
        calls_.MakeAdmitted(
            *std::move(call), std::move(context),
            Encoded<ReplyTo<Verb>>(std::move(encode), std::move(respond)));
      }};
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

template <typename Request, typename Encoder>
void Handlers::AddRead(Encoder encode) {
  AddCall<VerbRequest<Request>>(
      kMethodOf<Request>,
      [this](grpc::ByteBuffer* bytes, const CallContext& context) {
        return decoder_.Decode<Request>(bytes, context);
      },
      encode, kMaxBytesInline);
}

template <typename Request, typename Encoder>
void Handlers::AddPlain(Encoder encode, int64_t max_bytes_inline) {
  const auto parse = [this](grpc::ByteBuffer* bytes, const CallContext& context)
      -> absl::StatusOr<CallDispatch::Admitted<Request>> {
    Request request;
    RETURN_IF_ERROR(Parse(bytes, limits_, &request));
    return calls_.Admit(std::move(request), context.caller);
  };
  AddCall<Request>(kMethodOf<Request>, parse, encode, max_bytes_inline);
}

template <typename Request>
void Handlers::AddPlain(int64_t max_bytes_inline) {
  using Reply = ReplyTo<Request>;
  AddPlain<Request>(Encode<Reply, Reply>, max_bytes_inline);
}

Handlers::Answer Handlers::ListNamespaces(grpc::ByteBuffer* bytes,
                                          const CallContext& context) {
  ListNamespacesRequest request;
  RETURN_IF_ERROR(Parse(bytes, limits_, &request));
  // One more than the page tells whether there is another.
  ASSIGN_OR_RETURN(std::vector<NamespaceStatus> statuses,
                   calls_.ListNamespaces(request.page_token(),
                                         PageSizeOf(request) + 1, context));
  ListNamespacesReply page = PageOf(std::move(statuses), request);
  FitPage(limits_, *page.mutable_namespaces(), page);
  return Serialize(page, limits_);
}

}  // namespace tensorkv
