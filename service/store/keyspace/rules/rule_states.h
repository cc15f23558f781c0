// Says what rules ask of keys, and makes the states that they keep.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_STATES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_STATES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/store/keyspace/namespace_state.h"

namespace tensorkv {

// Checks that the key can have the rule: that the rule allows its dtype and,
// where it needs whole keys, that the key is no slice of one. Errors:
// InvalidArgument.
absl::Status CheckRule(absl::string_view key, DType dtype,
                       const UpdateRule& rule);

// Returns how many bytes the text of a rule, what it is compiled to and the
// steps of its schedule take at most.
uint64_t TextBytes(const UpdateRule& rule);

// Returns how many bytes the state of a key with that value takes.
uint64_t StateBytesOf(const Tensor& tensor, const UpdateRule& rule);

// Returns the state of `key` under `rule`, for which it allocates what the
// present one lacks: key.rule_state itself if that will do, null if the rule
// keeps nothing. For a key that nobody else knows, or with the RulesHold:
// nothing else changes a key's rule or which tensors its state has. Not under
// the mutex: a device may take its time to find memory.
absl::StatusOr<RefPtr<RuleState>> MakeState(const NamespaceState& of,
                                            const StoredKey& key,
                                            const UpdateRule& rule);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_STATES_H_
