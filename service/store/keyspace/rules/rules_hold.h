// The right to change the rules of a namespace, which goes from one operation
// to the next.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULES_HOLD_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULES_HOLD_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

struct NamespaceState;

// Whoever has it, alone, changes which rules keys have, or has them stay as
// they are, for as long as it takes to allocate states of all keys. It keeps
// the namespace. Move-only; belongs to no thread. Given back when destroyed,
// which REQUIRES that the mutex is free: then whoever has waited longest has
// it.
class RulesHold {
 public:
  RulesHold() = default;
  RulesHold(RulesHold&&) = default;
  RulesHold& operator=(RulesHold&& other) noexcept {
    Release();
    state_ = std::move(other.state_);
    return *this;
  }
  ~RulesHold() { Release(); }

  // REQUIRES: it has not been given back.
  NamespaceState& state() const { return *state_; }
  void Release();

 private:
  friend class RulesWait;
  friend std::optional<RulesHold> TryHoldRules(NamespaceState& state);

  explicit RulesHold(std::shared_ptr<NamespaceState> state)
      : state_(std::move(state)) {}

  std::shared_ptr<NamespaceState> state_;  // null: it has none
};

// Has the pool call `run` with the hold. Who waits for it is a WaitingCall, and
// ends as others do. Errors: those that end a WaitingCall; `run` is told of
// them on the thread that ends the wait.
void HoldRules(NamespaceState& state, CallContext context,
               absl::AnyInvocable<void(absl::StatusOr<RulesHold>) &&> run);

// Returns the hold if nobody has it.
std::optional<RulesHold> TryHoldRules(NamespaceState& state);

// Blocks until it has the hold, whoever ends the waits of calls: for threads
// that serve nobody else.
RulesHold AwaitRules(NamespaceState& state);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULES_HOLD_H_
