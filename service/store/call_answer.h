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

// CallReply is what is kept of the answer to a call: plain values, never a
// tensor, so that a checkpoint can write them out. std::monostate stands for a
// reply without fields.
using CallReply =
    std::variant<std::monostate, InitReply, PushReply, DeleteReply, RuleSpec,
                 CreateNamespaceReply, JoinReply>;
using CallAnswer = absl::StatusOr<CallReply>;

// CallIdentity names a call, tells it from another one with the same id, and
// says what it needs to be remembered.
struct CallIdentity {
  CallId id;
  uint64_t fingerprint = 0;
  // The bytes that the answer will take, if the call succeeds.
  uint64_t answer_bytes = 0;
  // The bytes of the request that an attempt keeps while it waits, and that
  // nothing else counts.
  uint64_t request_bytes = 0;
  // True of a push: rounds recognise its repeat even if the answer is
  // forgotten.
  bool is_push = false;
};

// The last call of a client, as a checkpoint has it.
struct CallSnapshot {
  std::string caller;
  CallId id;
  uint64_t fingerprint = 0;
  // Null if the call was being made when this was saved, or the answer was
  // dropped: nobody can tell whether the call has happened.
  std::shared_ptr<const CallAnswer> answer;
  // CallIdentity::is_push; false of a call that was restored.
  bool is_push = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_ANSWER_H_
