// Holds the tensors that a rule keeps for a key.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_STATE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_STATE_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "base/ref_counted.h"
#include "tensor/tensor.h"

namespace tensorkv {

// What a rule keeps of one key. Shared with the update under way.
struct RuleState : RefCounted {
  // The state tensors, in the order of the rule's StateSpecs. Few rules have
  // more than two.
  absl::InlinedVector<RefPtr<Buffer>, 2> states;
  // Null where the rule keeps no master copy.
  RefPtr<Buffer> master;

  // Buffers that the next update must fill first: states with zero, the master
  // with the value. Filling waits for the update because only an update may
  // read the value while nobody changes it.
  bool states_are_new = false;
  bool master_is_new = false;

  uint64_t size_bytes() const {
    uint64_t bytes = master ? master->size_bytes() : 0;
    for (const RefPtr<Buffer>& state : states) bytes += state->size_bytes();
    return bytes;
  }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_RULE_STATE_H_
