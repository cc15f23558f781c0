// One logical call that arrives on one or more streams, its stripes.

#ifndef TENSORKV_SERVICE_RPC_STRIPED_CALL_H_
#define TENSORKV_SERVICE_RPC_STRIPED_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "service/rpc/fair_rate.h"
#include "service/rpc/stream_request.h"
#include "service/rpc/upload_queue.h"
#include "service/store/cancellation.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

using StreamedReply = std::variant<InitReply, PushReply, PullReply>;

// Joins the stripes of a call, makes the call when the last of them is
// complete, and tells all of them how it ended. To prepare the call is to check
// it and to give its tensors memory. Thread-safe.
//
// Invariants:
//  1. The request's tensors have memory, and do not move, from when it is
//     prepared until the call is made.
//  2. The call is made at most once, and only when all stripes are complete.
//  3. Every stripe that joined hears of the end exactly once.
class StripedCall : public std::enable_shared_from_this<StripedCall> {
 public:
  // Shared by the stripes.
  using Reply = std::shared_ptr<const StreamedReply>;
  using Listener = absl::AnyInvocable<void(absl::StatusOr<Reply>) &&>;
  using Execution = absl::AnyInvocable<void(StreamedRequest, CallContext,
                                            ReplyCallback<StreamedReply>) &&>;

  // A request that was checked, what makes the call, and what gives its tensors
  // memory to receive into; null if they have that.
  struct PreparedCall {
    StreamedRequest request;
    Execution execute;
    absl::AnyInvocable<absl::Status(StreamedRequest&) &&> allocate;
  };
  using Preparation = absl::AnyInvocable<absl::StatusOr<PreparedCall>() &&>;

  // Once the call is prepared, the other stripes must come within
  // `stream_timeout`, and bytes at the FairRate of that timeout. `alarms`
  // is there until the call has ended.
  StripedCall(uint32_t num_stripes, absl::Duration stream_timeout,
              Alarms* alarms);
  ~StripedCall();

  // Adds a stripe. For the first one this runs `prepare`, which may block, with
  // no lock held; the others must have the same `manifest`. `listener` hears
  // how the call ends, on any thread, with no lock held. Errors: those of the
  // preparation · InvalidArgument (another manifest or number of stripes) ·
  // AlreadyExists (that stripe is there) · how the call ended, if it has. Then
  // the listener is not called, unless another stripe failed while this one
  // prepared the call.
  //
  // With `uploads`, which outlives the call, its tensors get memory once it has
  // a place there, until all stripes are complete; the listener hears if they
  // cannot get it.
  absl::Status Join(const Stripe& stripe, absl::string_view manifest,
                    Preparation prepare, Listener listener,
                    UploadQueue* uploads = nullptr);

  // Calls `ready` when the call is prepared or has ended: now, or on the thread
  // that prepares or ends it, with no lock held.
  void WhenPrepared(absl::AnyInvocable<void() &&> ready);

  // Returns the memory to receive into; stripes write disjoint ranges. Empty if
  // the call ended before it was prepared. REQUIRES: WhenPrepared has called
  // back; the stripe is not complete.
  absl::Span<Tensor* const> tensors() const { return tensors_; }

  // Counts bytes that were received into tensors, for the FairRate.
  void AddReceived(uint64_t bytes) {
    received_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

  // Is to be called when all bytes of stripe `index` are in place. For the last
  // stripe this makes the call, which may take `timeout`, on this thread; it
  // takes `share` as CallContext says.
  void Complete(uint32_t index, absl::Duration timeout,
                std::shared_ptr<const void> share = nullptr);

  // Ends the call without effect: the listener of stripe `index` gets `status`,
  // the others, also of stripes that come later, Aborted with the reason. If
  // the call is being made already, only that stripe hears of it, the others
  // hear how the call ends, and the call is cancelled once all stripes have
  // failed. Does nothing if the call has ended.
  void Fail(uint32_t index, const absl::Status& status);

 private:
  struct StripeState {
    bool has_joined = false;
    bool is_complete = false;
    Listener listener;  // null once the stripe has heard of the end
  };

  // What hears of the end of the call, and what it lets go of.
  struct Ended {
    std::vector<StripeState> stripes;
    std::vector<absl::AnyInvocable<void() &&>> waiting;
    std::optional<PreparedCall> prepared;
    UploadQueue::Place place;
    UploadQueue* uploads = nullptr;
    uint64_t entry = 0;
  };

  // Has the call of the first stripe, `index`, wait for its place.
  void AwaitPlace(uint32_t index, PreparedCall prepared, UploadQueue* uploads);
  // Gives the call that has waited its memory.
  void TakePlace(uint32_t index, UploadQueue::Place place);
  // Begins to receive, or ends the call; then those that wait in waiting_ go
  // on. The listener of a stripe that `joins` hears of no error.
  absl::Status SetPrepared(uint32_t index,
                           absl::StatusOr<PreparedCall> prepared,
                           UploadQueue::Place place, bool joins);
  // Publishes the memory of the tensors, and sets the alarms.
  void BeginToReceive(PreparedCall prepared)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckJoin(const Stripe& stripe, absl::string_view manifest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ScheduleJoinTimeout() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call if stripes are missing.
  void OnJoinTimeout();
  void ScheduleRateCheck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call if bytes come too slowly.
  void CheckRate();
  void CancelAlarms() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the call; EndWith gets its reply.
  void Execute(PreparedCall prepared, CallContext context);
  // Ends the call with its reply or error, and tells the stripes.
  void EndWith(absl::StatusOr<StreamedReply> reply);
  // Ends the call; `end` is for stripes that come later. The caller tells the
  // stripes, without the lock.
  Ended End(absl::Status end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells each stripe that listens what `outcome_of` says about it.
  static void Tell(
      Ended ended,
      absl::FunctionRef<absl::StatusOr<Reply>(uint32_t)> outcome_of);

  const uint32_t num_stripes_;
  const absl::Duration stream_timeout_;
  Alarms& alarms_;
  const std::shared_ptr<Cancellation> cancellation_;

  mutable Mutex mutex_;
  std::string manifest_ ABSL_GUARDED_BY(mutex_);
  // Until its tensors are given memory, and then until it is made.
  std::optional<PreparedCall> prepared_ ABSL_GUARDED_BY(mutex_);
  UploadQueue::Place place_ ABSL_GUARDED_BY(mutex_);
  // What it has been given as it entered `uploads_`; 0: nothing.
  UploadQueue* uploads_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t entry_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<StripeState> stripes_ ABSL_GUARDED_BY(mutex_);
  uint32_t num_joined_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t num_complete_ ABSL_GUARDED_BY(mutex_) = 0;
  // Counts the stripes that joined and have not heard of the end.
  uint32_t num_listening_ ABSL_GUARDED_BY(mutex_) = 0;
  // What stripes get that come after the end of the call.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool is_prepared_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void() &&>> waiting_ ABSL_GUARDED_BY(mutex_);
  Alarms::Id join_alarm_ ABSL_GUARDED_BY(mutex_) = 0;
  // Watches the payload, from when memory is held for it.
  FairRate rate_ ABSL_GUARDED_BY(mutex_);
  absl::Duration prepared_at_ ABSL_GUARDED_BY(mutex_);
  Alarms::Id rate_alarm_ ABSL_GUARDED_BY(mutex_) = 0;

  std::atomic<uint64_t> received_bytes_{0};
  // Set by the preparation; what it points to is written by the stripes.
  std::vector<Tensor*> tensors_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_STRIPED_CALL_H_
