// Remembers the answers to mutating calls.

#ifndef TENSORKV_SERVICE_STORE_CALL_ANSWER_H_
#define TENSORKV_SERVICE_STORE_CALL_ANSWER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/requests.h"

namespace tensorkv {

// CallReply is what is kept of an answer: plain values, never a tensor, so that
// a checkpoint can write them out. Nothing stands for the answer to a call that
// has none.
using CallReply =
    std::variant<std::monostate, InitReply, PushReply, DeleteReply,
                 SetHyperparametersReply, CreateNamespaceReply, JoinReply,
                 UpdateNamespaceReply, CreateSnapshotReply,
                 DeleteSnapshotReply>;
using CallAnswer = absl::StatusOr<CallReply>;

// Returns how many bytes the answer takes besides itself.
uint64_t SizeOf(const CallAnswer& answer);

// Returns `answer`, its message cut off where the whole exceeds `max_bytes`.
// The reason stays: programs go by it.
CallAnswer Limited(const CallAnswer& answer, uint64_t max_bytes);

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

// CallSnapshot is a call that a window remembers.
struct CallSnapshot {
  uint64_t sequence = 0;
  uint64_t fingerprint = 0;
  // Null where nobody can tell whether the call was made: it was being made, or
  // its answer is remembered no more.
  std::shared_ptr<const CallAnswer> answer;
  // Says what CallIdentity says; false of a call without an answer that was
  // being made no more, or was restored.
  bool is_push = false;
};

// ClientSnapshot holds what a window remembers of a client.
struct ClientSnapshot {
  std::string caller;
  std::string client_id;
  // Is the highest that the client has told.
  uint64_t answered_below = 1;
  // Has the calls in no order.
  std::vector<CallSnapshot> calls;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_ANSWER_H_
