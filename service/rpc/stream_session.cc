#include "service/rpc/stream_session.h"

#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/any_call.h"
#include "contract/reason.h"
#include "contract/stream_codec.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "service/rpc/message_codec.h"
#include "service/rpc/stream_request.h"
#include "tensor/bool_elements.h"
#include "tensorkv/v1/stream.pb.h"

namespace tensorkv {
namespace {

const std::string& NamespaceOf(const StreamedRequest& request) {
  return std::visit(
      [](const auto& call) -> const std::string& { return call.name_space; },
      request);
}

// Checks that the call would be taken, before any payload is read.
template <typename Request>
absl::Status Check(const Request& request, const CallContext& context,
                   const StreamDependencies& dependencies) {
  if constexpr (std::is_same_v<Request, PushPullRequest>) {
    // The reply's manifest must go out once the push has been made.
    RETURN_IF_ERROR(
        BytesForValues(request.entries.size(), dependencies.limits).status());
  }
  return dependencies.calls->CheckManifest(request, context);
}

// Moves ids of rows, which have come with the manifest, into memory that the
// budget counts: the payload, or the other stripes, may be long in coming.
absl::Status StageRowIds(Staging& staging, const CallContext& context,
                         StreamedRequest& request) {
  const std::vector<RefPtr<const RowIds>*> all = RowIdsOf(request);
  if (all.empty()) return absl::OkStatus();
  std::vector<Tensor> staged;
  for (const RefPtr<const RowIds>* ids : all) {
    const Tensor& tensor = (*ids)->tensor();
    ASSIGN_OR_RETURN(staged.emplace_back(),
                     Tensor::WithoutData(tensor.dtype(), tensor.shape()));
  }
  std::vector<Tensor*> tensors;
  for (Tensor& tensor : staged) tensors.push_back(&tensor);
  RETURN_IF_ERROR(staging.Allocate(NamespaceOf(request), tensors, context));
  for (size_t i = 0; i < staged.size(); ++i) {
    const Tensor& ids = (*all[i])->tensor();
    if (ids.size_bytes() > 0) {
      std::memcpy(staged[i].mutable_data(), ids.data(), ids.size_bytes());
    }
    ASSIGN_OR_RETURN(*all[i], RowIds::Create(std::move(staged[i])));
  }
  return absl::OkStatus();
}

// Returns the bound that the caller states; 0 is none: a stream has any size.
template <typename Request>
uint64_t MaxReplyBytes(const Request& request) {
  if constexpr (requires { request.max_reply_bytes; }) {
    if (request.max_reply_bytes > 0) return request.max_reply_bytes;
  }
  return UINT64_MAX;
}

void Execute(const CallDispatch& calls, Caller caller, StreamedRequest request,
             CallContext context, ReplyCallback<StreamedReply> done) {
  context.caller = std::move(caller);
  std::visit(
      [&]<typename Request>(Request& call) {
        context.max_reply_bytes = MaxReplyBytes(call);
        calls.Make(std::move(call), std::move(context),
                   [done = std::move(done)](
                       absl::StatusOr<ReplyTo<Request>> reply) mutable {
                     if (!reply.ok()) return std::move(done)(reply.status());
                     std::move(done)(StreamedReply(*std::move(reply)));
                   });
      },
      request);
}

// Checks the call, and counts its payload of `total` bytes in `share`, unless
// that is null. Ids of rows have memory, its tensors are to get it.
absl::StatusOr<StripedCall::PreparedCall> Prepare(
    const Caller& caller, const StreamDependencies& dependencies,
    CallerQuotas::Share* share, uint64_t total, StreamedRequest request) {
  const CallContext context = {.caller = caller};
  RETURN_IF_ERROR(std::visit(
      [&](const auto& request) {
        return Check(request, context, dependencies);
      },
      request));
  if (share != nullptr) {
    RETURN_IF_ERROR(share->Add(total + RowIdBytes(request)));
  }
  const CallDispatch& calls = *dependencies.calls;
  RETURN_IF_ERROR(StageRowIds(calls.staging(), context, request));
  return StripedCall::PreparedCall{
      .request = std::move(request),
      .execute = std::bind_front(Execute, std::cref(calls), caller),
      .allocate = [&staging = calls.staging(),
                   context](StreamedRequest& request) {
        return staging.Allocate(NamespaceOf(request), TensorsOf(request),
                                context);
      }};
}

}  // namespace

StreamSession::StreamSession(Method method, Caller caller,
                             const StreamDependencies* dependencies,
                             CallerQuotas::Share* share, Listener listener)
    : method_(method),
      caller_(std::move(caller)),
      dependencies_(*dependencies),
      share_(share),
      listener_(std::move(listener)) {}

absl::Status StreamSession::Receive(grpc::ByteBuffer* message) {
  if (method_ == Method::kPullStream) return TakeTicket(message);
  return call_ == nullptr ? Open(message) : ReceivePart(message);
}

absl::Status StreamSession::TakeTicket(grpc::ByteBuffer* message) {
  if (taken_) {
    return absl::InvalidArgumentError("PullStream: expected one message");
  }
  ASSIGN_OR_RETURN(const TicketRequest asked,
                   DecodeTicketRequest(dependencies_.limits, message));
  ASSIGN_OR_RETURN(
      Tickets::TakenStripe taken,
      dependencies_.tickets->Take(caller_.name, asked.ticket, asked.stripe));
  taken_.emplace(std::move(taken));
  reply_form_ = {.stripe = asked.stripe,
                 .max_part_bytes = asked.max_part_bytes};
  return absl::OkStatus();
}

absl::Status StreamSession::Open(grpc::ByteBuffer* message) {
  ASSIGN_OR_RETURN(StreamRequest stream,
                   DecodeStreamRequest(method_, dependencies_.limits, message));
  reply_form_.stripe = stream.stripe;
  const Stripe& stripe = reply_form_.stripe;
  StripedCalls& calls = *dependencies_.striped_calls;
  const std::shared_ptr<StripedCall> call =
      stripe.count > 1 ? calls.FindOrAdd(method_, caller_, stripe)
                       : calls.New();

  std::vector<uint64_t> sizes;
  for (const Tensor* tensor : TensorsOf(stream.request)) {
    sizes.push_back(static_cast<uint64_t>(tensor->size_bytes()));
  }
  ASSIGN_OR_RETURN(const uint64_t total, TotalBytes(sizes));
  ASSIGN_OR_RETURN(const ByteRange range, StripeRange(total, stripe));
  parts_.emplace(std::move(sizes), range);
  const auto prepare = [&] {
    return Prepare(caller_, dependencies_, share_, total,
                   std::move(stream.request));
  };
  RETURN_IF_ERROR(call->Join(stripe, stream.manifest, prepare,
                             std::move(listener_),
                             total > 0 ? dependencies_.uploads : nullptr));
  call_ = call;  // only now: a stream that was refused must not fail it
  return absl::OkStatus();
}

absl::StatusOr<char*> StreamSession::MemoryFor(const PartRange& part) {
  RETURN_IF_ERROR(parts_->Accept(part));
  const absl::Span<Tensor* const> tensors = call_->tensors();
  if (tensors.empty()) {
    return WithReason(
        absl::AbortedError("the call ended while it was prepared"),
        Reason::kStripeFailed);
  }
  // Its sizes are those of the stripe that prepared the call: they have the
  // same manifest. Memory must not hang on its digest alone.
  if (part.entry >= tensors.size() ||
      part.offset + part.size_bytes >
          static_cast<uint64_t>(tensors[part.entry]->size_bytes())) {
    return absl::InternalError(
        "part: expected the sizes of the call's other stripes, got others");
  }
  return tensors[part.entry]->mutable_data() + part.offset;
}

absl::Status StreamSession::ReceivePart(grpc::ByteBuffer* message) {
  grpc::ProtoBufferReader reader(message);
  const auto encoded = ReadPart(&reader, message->Length());
  if (!encoded) return ReceiveUnusualPart(message);
  ASSIGN_OR_RETURN(char* place, MemoryFor(encoded->part));
  grpc::ProtoBufferReader payload(message);
  if (!CopyRange(&payload, encoded->data, place)) {
    return absl::InternalError("part: cannot be read again");
  }
  RETURN_IF_ERROR(CheckPart(encoded->part, place));
  call_->AddReceived(encoded->part.size_bytes);
  message->Clear();
  return absl::OkStatus();
}

absl::Status StreamSession::CheckPart(const PartRange& part,
                                      const char* elements) const {
  return CheckBoolElements(call_->tensors()[part.entry]->dtype(),
                           {elements, part.size_bytes});
}

// Receives a part in another form than writers usually give it, or a wrong one.
absl::Status StreamSession::ReceiveUnusualPart(grpc::ByteBuffer* message) {
  // Chunks of all streams have their parts in the same field.
  v1::PushChunk chunk;
  RETURN_IF_ERROR(Parse(message, dependencies_.limits, &chunk));
  if (!chunk.has_part()) {
    return absl::InvalidArgumentError(
        absl::StrCat("message after the manifest: expected a part, got ",
                     chunk.has_manifest() ? "a second manifest" : "none"));
  }
  const v1::Part& part = chunk.part();
  ASSIGN_OR_RETURN(char* place, MemoryFor({part.entry(), part.offset(),
                                           part.data().size()}));
  std::memcpy(place, part.data().data(), part.data().size());
  RETURN_IF_ERROR(
      CheckPart({part.entry(), part.offset(), part.data().size()}, place));
  call_->AddReceived(part.data().size());
  return absl::OkStatus();
}

void StreamSession::WhenReady(absl::AnyInvocable<void() &&> ready) {
  if (taken_) return std::move(ready)();
  call_->WhenPrepared(std::move(ready));
}

absl::Status StreamSession::Close(absl::Duration timeout,
                                  std::shared_ptr<const void> share) {
  if (taken_) {
    std::move(listener_)(taken_->reply());
    return absl::OkStatus();
  }
  if (call_ == nullptr) {
    return absl::InvalidArgumentError(
        "stream: expected a manifest, got no message");
  }
  RETURN_IF_ERROR(parts_->CheckComplete());
  call_->Complete(reply_form_.stripe.index, timeout, std::move(share));
  return absl::OkStatus();
}

void StreamSession::Fail(const absl::Status& status) {
  if (taken_) taken_->End();
  if (call_ != nullptr) call_->Fail(reply_form_.stripe.index, status);
}

void StreamSession::SetSent() {
  if (taken_) taken_->SetSent();
}

absl::StatusOr<ReplyMessages> StreamSession::MakeReply(
    StripedCall::Reply reply) const {
  return ReplyMessages::Create(std::move(reply), reply_form_,
                               dependencies_.limits);
}

}  // namespace tensorkv
