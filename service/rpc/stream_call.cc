#include "service/rpc/stream_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/grpc_status.h"
#include "contract/reason.h"
#include "service/rpc/caller.h"
#include "service/rpc/wait_bound.h"

namespace tensorkv {
namespace {

absl::Status TooManyStreams(uint32_t limit) {
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "streams: expected at most ", limit, " open at once")),
                    Reason::kLimitReached, {{"limit", limit}});
}

absl::Status Stalled(absl::Duration timeout) {
  return WithReason(
      absl::DeadlineExceededError(absl::StrCat(
          "stream: expected at least ", StreamCall::kMinProgressBytes,
          " bytes or the end within ", absl::FormatDuration(timeout))),
      Reason::kPeerTooSlow);
}

}  // namespace

StreamCall* StreamCall::Start(Method method, const Environment* environment,
                              grpc::CallbackServerContext* context) {
  std::shared_ptr<StreamCall> call(
      new StreamCall(method, environment, context));
  call->self_ = call;
  call->Open();
  return call.get();
}

StreamCall::StreamCall(Method method, const Environment* environment,
                       grpc::CallbackServerContext* context)
    : method_(method),
      environment_(*environment),
      context_(*context),
      start_(std::chrono::steady_clock::now()) {}

absl::Status StreamCall::CheckCaller() {
  RETURN_IF_ERROR(AdmitCaller(environment_.access, method_, context_,
                              environment_.slow_call, caller_));
  ASSIGN_OR_RETURN(
      CallerQuotas::Share share,
      TakeShare(environment_.access, context_, caller_, {.streams = 1}));
  unmade_share_ = std::make_shared<CallerQuotas::Share>(std::move(share));
  share_ = unmade_share_;
  // Whoever is refused takes no one's place.
  is_counted_ = environment_.open_streams->Open();
  if (!is_counted_) return TooManyStreams(environment_.open_streams->limit());
  return environment_.incarnation->CheckIncarnation(method_, context_, caller_);
}

void StreamCall::Open() {
  environment_.observer->Started(method_);
  const absl::Status refusal = CheckCaller();
  session_.emplace(
      method_, caller_, &environment_.session, unmade_share_.get(),
      [weak_this = weak_from_this()](absl::StatusOr<StripedCall::Reply> reply) {
        if (const auto self = weak_this.lock()) self->Answer(std::move(reply));
      });
  if (!refusal.ok()) End(refusal);  // by Read
  {
    MutexLock lock(&mutex_);
    WatchProgress();
  }
  Read();
}

void StreamCall::Read() {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    if (state_ >= State::kFinishing) return;
    if (!BeginFinish(&status)) {
      state_ = State::kReading;
      // With the lock: nobody may finish the call in between. gRPC calls back
      // on a thread of its own.
      StartRead(&message_);
      return;
    }
  }
  FinishWith(status);
}

void StreamCall::OnReadDone(bool ok) {
  size_t max_inline_bytes = kMaxInlineBytes;
  {
    MutexLock lock(&mutex_);
    // The call has ended meanwhile.
    if (state_ != State::kReading) return;
    state_ = State::kReceiving;
    if (received_bytes_ == 0) max_inline_bytes = kMaxInlineManifestBytes;
    received_bytes_ += ok ? message_.Length() : 0;
  }
  if (!ok) return Close();
  if (message_.Length() <= max_inline_bytes) return Receive();
  environment_.pool->Submit(TaskOwnerOf(caller_, context_.peer()),
                            [self = shared_from_this()] { self->Receive(); });
}

void StreamCall::Receive() {
  if (absl::Status status = session_->Receive(&message_); !status.ok()) {
    End(status);  // by Read, whose turn it is
    return Read();
  }
  {
    MutexLock lock(&mutex_);
    state_ = State::kWaiting;
  }
  session_->WhenReady([self = shared_from_this()] { self->Read(); });
}

void StreamCall::Close() {
  // The outcome may come, and the call be done, before this returns.
  const std::shared_ptr<StreamCall> self = shared_from_this();
  if (context_.IsCancelled()) {
    End(absl::CancelledError("the caller has given up"));
  }
  const absl::Duration timeout = TimeLeft(context_.deadline());
  absl::Status status;
  bool must_finish = false;
  {
    MutexLock lock(&mutex_);
    must_finish = BeginFinish(&status);
    if (!must_finish) {
      state_ = State::kWaiting;
      arrived_ = std::chrono::steady_clock::now();
    }
  }
  if (must_finish) return FinishWith(status);
  // If the call waits when this returns, it is for other calls maybe, which
  // must not be refused because of it.
  status = session_->Close(timeout, std::move(unmade_share_));
  if (!status.ok()) End(status);
}

void StreamCall::Answer(absl::StatusOr<StripedCall::Reply> reply) {
  if (!reply.ok()) return End(reply.status());
  absl::StatusOr<ReplyMessages> messages =
      session_->MakeReply(*std::move(reply));
  if (!messages.ok()) return End(messages.status());
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kWaiting) return;  // it has ended meanwhile
    state_ = State::kWriting;
    left_ = std::chrono::steady_clock::now();
    reply_.emplace(*std::move(messages));
    answered_ = environment_.alarms->Now();
    reply_rate_.emplace(reply_->payload_bytes(), environment_.stream_timeout);
  }
  Write();
}

void StreamCall::Write() {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    if (!BeginFinish(&status)) {
      grpc::WriteOptions options;
      // Lets gRPC take the next message before this one is sent. Not for the
      // first: the headers, which go with it, would wait for more too.
      if (sent_bytes_ > 0) options.set_buffer_hint();
      message_ = reply_->Next();
      sent_bytes_ += message_.Length();
      if (!reply_->is_done()) {
        StartWrite(&message_, options);
        return;
      }
      state_ = State::kFinishing;
    }
  }
  if (!status.ok()) return FinishWith(status);
  session_->SetSent();
  Report(status);
  if (const auto share = share_.lock()) share->Release();
  StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
}

void StreamCall::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kWriting) return;  // that was the last one
    if (!ok && !end_) end_ = absl::CancelledError("the caller has given up");
  }
  Write();
}

void StreamCall::OnCancel() {
  End(absl::CancelledError("the caller has given up"));
}

bool StreamCall::BeginFinish(absl::Status* status) {
  if (!end_) return false;
  *status = *end_;
  state_ = State::kFinishing;
  return true;
}

void StreamCall::End(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (end_ || state_ >= State::kFinishing) return;
    end_ = status;
    if (state_ != State::kReading && state_ != State::kWaiting) return;
    state_ = State::kFinishing;
  }
  FinishWith(status);
}

void StreamCall::FinishWith(const absl::Status& status) {
  session_->Fail(status);
  Report(status);
  AddRetryPushback(status, context_);
  if (const auto share = share_.lock()) share->Release();
  // Last: gRPC may be done with the call before this returns.
  Finish(ToGrpcStatus(status));
}

void StreamCall::Report(const absl::Status& status) {
  const auto now = std::chrono::steady_clock::now();
  CallOutcome outcome{.code = status.code()};
  outcome.duration = absl::FromChrono(now - start_);
  outcome.message = status.message();
  outcome.caller = &caller_;
  {
    MutexLock lock(&mutex_);
    outcome.request_bytes = received_bytes_;
    outcome.reply_bytes = sent_bytes_;
    outcome.arriving = absl::FromChrono(arrived_.value_or(now) - start_);
    outcome.leaving = absl::FromChrono(now - left_.value_or(now));
  }
  environment_.observer->Handled(method_, outcome);
}

void StreamCall::WatchProgress() {
  Alarms& alarms = *environment_.alarms;
  alarm_ = alarms.Schedule(alarms.Now() + environment_.stream_timeout,
                           [weak_this = weak_from_this()] {
                             const auto self = weak_this.lock();
                             if (self != nullptr) self->CheckProgress();
                           });
}

bool StreamCall::ReadsTooSlowly() const {
  return reply_rate_ && reply_rate_->binds() &&
         environment_.alarms->Now() - answered_ >
             reply_rate_->TimeFor(sent_bytes_);
}

bool StreamCall::CheckStalled() {
  const uint64_t bytes = received_bytes_ + sent_bytes_;
  // The call awaited the peer then, and does now.
  const bool is_stalled =
      state_ == checked_state_ && IsPeerAwaited(state_) &&
      (bytes - checked_bytes_ < kMinProgressBytes || ReadsTooSlowly());
  checked_state_ = state_;
  checked_bytes_ = bytes;
  return is_stalled;
}

void StreamCall::CheckProgress() {
  {
    MutexLock lock(&mutex_);
    if (state_ == State::kDone) return;
    if (!CheckStalled()) return WatchProgress();
    if (state_ != State::kReading) {
      // A message that is being written would come before any status. With the
      // lock: the context lives until OnDone has had it.
      context_.TryCancel();
      return;
    }
  }
  End(Stalled(environment_.stream_timeout));
}

void StreamCall::OnDone() {
  {
    MutexLock lock(&mutex_);
    state_ = State::kDone;
    if (alarm_ != 0) environment_.alarms->Cancel(alarm_);
  }
  if (is_counted_) environment_.open_streams->Close();
  const std::shared_ptr<StreamCall> last = std::move(self_);
}

}  // namespace tensorkv
