// Remembers the answers to mutating calls.

#ifndef TENSORKV_SERVICE_STORE_CALL_ANSWER_H_
#define TENSORKV_SERVICE_STORE_CALL_ANSWER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "contract/requests.h"

namespace tensorkv {

// CallReply is what is kept of an answer: plain values, never a tensor, so that
// a checkpoint can write them out. Nothing stands for the answer to a call that
// has none.
using CallReply =
    std::variant<std::monostate, InitReply, PushReply, DeleteReply, RuleSpec,
                 CreateNamespaceReply, JoinReply>;
using CallAnswer = absl::StatusOr<CallReply>;

// CallIdentity says which call it is, and what tells it from another one by the
// same name.
struct CallIdentity {
  CallId id;
  uint64_t fingerprint = 0;
  // Counts what the answer will take, if all goes well.
  uint64_t answer_bytes = 0;
  // Counts what an attempt keeps of its request while it waits and nothing else
  // counts.
  uint64_t request_bytes = 0;
  // A push: where there are rounds, its repeat is recognised without this.
  bool is_push = false;
};

// A call that was remembered, or if its sequence is `forgotten`, one that
// stands for those of its client which were forgotten.
struct CallSnapshot {
  std::string caller;
  CallId id;
  uint64_t fingerprint = 0;
  // Null, in what CallWindow::Save returns, if the call was being made or was
  // forgotten; OUTCOME_UNKNOWN in a NamespaceSnapshot then.
  std::shared_ptr<const CallAnswer> answer;
  // Up to here, what is not remembered of its client was forgotten.
  uint64_t forgotten = 0;
  // Says what CallIdentity says; false of a call that was restored.
  bool is_push = false;

  bool is_forgotten() const { return id.sequence == forgotten; }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_ANSWER_H_
