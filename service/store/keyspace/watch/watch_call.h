// A call of a watch that waits, and who tells it of changes.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_CALL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/waits.h"
#include "service/store/keyspace/watch/change_log.h"
#include "service/store/keyspace/watch/watch_token.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// On which terms a watch is told of changes: what a Watch says.
struct WatchTerms {
  WatchFilter filter;
  absl::Duration interval;
  size_t max_changes = 0;
};

// What a watch is told now: a reply, maybe without changes, and the token of
// where it is then; or that it must begin anew.
absl::StatusOr<WatchReply> ReadChanges(const NamespaceState& state,
                                       const WatchTerms& terms,
                                       WatchToken& token);

// One call from its start to its answer. Nothing that is told of a namespace
// wakes it but TellChanges, for all calls together and outside of the mutex.
class WatchCall final : public WaitingCall {
 public:
  WatchCall(NamespaceState& state, WatchTerms terms, WatchToken token,
            CallContext context, ReplyCallback<WatchReply> done)
      : WaitingCall(std::move(context), state.Now()),
        state_(state),
        terms_(std::move(terms)),
        done_(std::move(done)),
        token_(std::move(token)),
        share_(this->context.share.lock()) {
    reason = WaitReason::kChange;
    topic = std::string(kChangesTopic);
  }

  // Returns when the call may answer.
  absl::Duration due() const { return started + terms_.interval; }
  // Returns whether there are changes at which it has not looked, and may.
  bool IsBehind() const {
    return token_.position != state_.log->last() &&
           state_.log->told() >= token_.not_before;
  }

  // Looks at those; `*token` becomes that of after them. The mutex need not be
  // held.
  absl::StatusOr<WatchReply> Read(WatchToken* token) const {
    *token = token_;
    return ReadChanges(state_, terms_, *token);
  }
  // Takes what Read has returned. Returns whether that is the answer.
  bool Take(absl::StatusOr<WatchReply> found, WatchToken token);

  bool CanEnd() override;
  absl::Status Missing() const override;
  void Fail(const absl::Status& status) override;
  uint64_t size_bytes() const override;
  void Send() override {
    share_ = nullptr;
    SendOnce(std::move(done_), std::move(answer_));
  }

 private:
  NamespaceState& state_;
  const WatchTerms terms_;
  ReplyCallback<WatchReply> done_;
  WatchToken token_;
  // It waits for others, but none of these needs its caller's other calls: so
  // the caller pays for each watch.
  std::shared_ptr<const void> share_;
  absl::StatusOr<WatchReply> answer_;
};

// Has TellChanges run soon, if there is more to tell than what was taken.
// REQUIRES: the mutex is held.
void ScheduleTelling(NamespaceState& state);

// Takes what has changed to the log, and answers the calls that are to hear of
// it, on the pool. Called by the alarm of changes alone.
void TellChanges(NamespaceState& state);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_CALL_H_
