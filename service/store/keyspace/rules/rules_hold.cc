#include "service/store/keyspace/rules/rules_hold.h"

#include <list>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {

// One operation from its start until it has the hold. Guarded by the
// namespace's mutex.
class RulesWait final : public WaitingCall {
 public:
  using Run = absl::AnyInvocable<void(absl::StatusOr<RulesHold>) &&>;

  RulesWait(NamespaceState& state, CallContext context, Run run)
      : WaitingCall(std::move(context), state.Now()),
        state_(state),
        run_(std::move(run)) {
    topic = std::string(kRulesTopic);
    reason = WaitReason::kRules;
  }

  bool CanEnd() override {
    if (state_.rules_are_held) {
      if (!place_) {
        place_ = state_.rules_waits.insert(state_.rules_waits.end(), this);
      }
      return false;
    }
    state_.rules_are_held = true;
    return true;
  }
  absl::Status Missing() const override {
    return WithReason(absl::DeadlineExceededError(absl::StrCat(
                          "changes of rules of namespace ", Quoted(state_.name),
                          " that came before are under way")),
                      Reason::kWaitEnded, {{"namespace", state_.name}});
  }
  void Fail(const absl::Status& status) override { status_ = status; }
  void Finish() override {
    if (place_) state_.rules_waits.erase(*place_);
  }
  void Send() override {
    Run run = std::move(run_);
    if (!status_.ok()) return std::move(run)(std::move(status_));
    std::move(run)(RulesHold(state_.shared_from_this()));
  }

 private:
  NamespaceState& state_;
  Run run_;
  absl::Status status_;
  // In rules_waits, once it waits.
  std::optional<std::list<WaitingCall*>::iterator> place_;
};

void RulesHold::Release() {
  const std::shared_ptr<NamespaceState> state = std::move(state_);
  if (state == nullptr) return;
  Transaction transaction(*state);
  state->rules_are_held = !state->rules_waits.empty();
  if (!state->rules_are_held) return;
  const WaitingCallPtr next = state->rules_waits.front()->shared_from_this();
  state->waits.Remove(next);
  EndCall(transaction, next);
}

void HoldRules(NamespaceState& state, CallContext context, RulesWait::Run run) {
  auto run_on_pool =
      [run = std::move(run)](absl::StatusOr<RulesHold> hold) mutable {
        if (!hold.ok()) return std::move(run)(hold.status());
        NamespaceState& state = hold->state();
        state.Run([hold = *std::move(hold), run = std::move(run)]() mutable {
          std::move(run)(std::move(hold));
        });
      };
  StartCall(state, std::make_shared<RulesWait>(state, std::move(context),
                                               std::move(run_on_pool)));
}

std::optional<RulesHold> TryHoldRules(NamespaceState& state) {
  MutexLock lock(&state.mutex);
  if (state.rules_are_held) return std::nullopt;
  state.rules_are_held = true;
  return RulesHold(state.shared_from_this());
}

// Not parked: nothing but the end of those before ends this wait.
RulesHold AwaitRules(NamespaceState& state) {
  const Answer<absl::StatusOr<RulesHold>> answer;
  const auto wait = std::make_shared<RulesWait>(
      state, CallContext(), [answer](absl::StatusOr<RulesHold> hold) {
        answer.Set(std::move(hold));
      });
  {
    Transaction transaction(state);
    if (wait->CanEnd()) EndCall(transaction, wait);
  }
  return *answer.Wait();
}

}  // namespace tensorkv
