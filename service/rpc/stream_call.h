// One streaming call on gRPC's callback API.

#ifndef TENSORKV_SERVICE_RPC_STREAM_CALL_H_
#define TENSORKV_SERVICE_RPC_STREAM_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "base/task_pool.h"
#include "grpcpp/grpcpp.h"
#include "service/metrics/call_observer.h"
#include "service/rpc/fair_rate.h"
#include "service/rpc/incarnation.h"
#include "service/rpc/open_streams.h"
#include "service/rpc/reply_messages.h"
#include "service/rpc/stream_session.h"
#include "service/security/access_control.h"

namespace tensorkv {

// Carries one stream: reads its messages into a session one at a time, waits
// for the call's outcome, writes the answer one message at a time, finishes.
// Any kind of stream is a bidirectional one here; on the wire they are alike.
//
// A peer that moves fewer than kMinProgressBytes in stream_timeout, either
// way, is cut off within twice that time: with DeadlineExceeded where it should
// send, by cancellation where it should read. So is one that reads more slowly
// than FairRate says; StripedCall looks after those that send.
//
// Thread-safe. Lives until gRPC is done with the call, and a thread that has
// answered it may have it a little longer: then the environment and the context
// may be gone.
//
// Invariants:
//  1. gRPC has at most one read or write of this call under way; state_ says
//     which.
//  2. Whoever sets state_ to kFinishing finishes the call; nothing is started
//     after that.
//  3. The session and the reply are used by whoever handles the one read,
//     write or outcome; others may only fail the session, once it is open.
class StreamCall final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public std::enable_shared_from_this<StreamCall> {
 public:
  static constexpr uint64_t kMinProgressBytes = 64 * 1024;
  // Longer messages are received on the pool. The first one may have an entry
  // in a few bytes.
  static constexpr uint64_t kMaxInlineBytes = 2 << 20;
  static constexpr uint64_t kMaxInlineManifestBytes = 4 << 10;

  // Environment holds what all streams of a server share; all of it is there
  // until gRPC is done with them.
  struct Environment {
    StreamDependencies session;
    OpenStreams* open_streams = nullptr;
    const Incarnation* incarnation = nullptr;
    // Null: everybody may do everything.
    const AccessControl* access = nullptr;
    absl::Duration stream_timeout;
    // Calls that take at least so long get a CallRecord.
    absl::Duration slow_call = absl::InfiniteDuration();
    Alarms* alarms = nullptr;
    CallObserver* observer = nullptr;
    TaskPool* pool = nullptr;
  };

  // Starts the call and returns its reactor, which owns itself. `environment`
  // and gRPC's `context` are there until gRPC is done with the call.
  static StreamCall* Start(Method method, const Environment* environment,
                           grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class State {
    kReading,
    kReceiving,  // a message that was read
    kWaiting,    // for the call's turn to receive, or its outcome
    kWriting,
    kFinishing,
    kDone,
  };

  StreamCall(Method method, const Environment* environment,
             grpc::CallbackServerContext* context);

  // Begins the session, the watch for progress and the first read.
  void Open();
  // Fills in the caller, counts the stream as open, and checks that the call
  // may go on.
  absl::Status CheckCaller();
  void Read();
  // Passes the message that was read to the session, then reads on.
  void Receive();
  // Is to be called when the peer has sent all that it will, or is gone: has
  // the session make the call.
  void Close();
  // Begins to write the answer, or ends the call with the error.
  void Answer(absl::StatusOr<StripedCall::Reply> reply);
  void Write();

  // Ends the call with `status`: now, or when the read or write under way has
  // ended. Only the first end counts.
  void End(const absl::Status& status);
  // If the call is to end, sets `status` and that the call finishes, and
  // returns true: the caller then calls FinishWith, without the lock. Else
  // changes nothing.
  bool BeginFinish(absl::Status* status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fails the session, and finishes the call. REQUIRES: state_ was set to
  // kFinishing, by the caller or by BeginFinish.
  void FinishWith(const absl::Status& status);
  // Tells the observer how the call has ended.
  void Report(const absl::Status& status);

  // Sets the alarm that calls CheckProgress.
  void WatchProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call if the peer has stalled, else watches on.
  void CheckProgress();
  static bool IsPeerAwaited(State state) {
    return state == State::kReading || state == State::kWriting ||
           state == State::kFinishing;
  }
  // Returns whether a peer that reads a reply is behind its least rate.
  bool ReadsTooSlowly() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the peer has moved too little since the last check, or
  // reads too slowly. The next check begins here.
  bool CheckStalled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Method method_;
  const Environment& environment_;
  grpc::CallbackServerContext& context_;
  const std::chrono::steady_clock::time_point start_;
  Caller caller_;  // from Open on
  // Until the call is made; then who works for it has it, until it is finished.
  std::shared_ptr<CallerQuotas::Share> unmade_share_;
  std::weak_ptr<CallerQuotas::Share> share_;
  bool is_counted_ = false;           // as an open stream
  std::shared_ptr<StreamCall> self_;  // until OnDone

  std::optional<StreamSession> session_;  // from Open on
  grpc::ByteBuffer message_;
  std::optional<ReplyMessages> reply_;

  Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kReceiving;
  // Why the call must end.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  uint64_t received_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t sent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the peer had sent all, and when the outcome was there.
  std::optional<std::chrono::steady_clock::time_point> arrived_
      ABSL_GUARDED_BY(mutex_);
  std::optional<std::chrono::steady_clock::time_point> left_
      ABSL_GUARDED_BY(mutex_);
  // When the peer was to begin to read, and how fast it must.
  absl::Duration answered_ ABSL_GUARDED_BY(mutex_);
  std::optional<FairRate> reply_rate_ ABSL_GUARDED_BY(mutex_);
  State checked_state_ ABSL_GUARDED_BY(mutex_) = State::kReceiving;
  uint64_t checked_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Alarms::Id alarm_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_STREAM_CALL_H_
