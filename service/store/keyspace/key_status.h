// What List and Stat tell of keys.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_STATUS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/requests.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "service/store/keyspace/rules/rule_bindings.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

// KeyMetadata is what is read of a key while the mutex is held. The status is
// made of it, and of a copy of the rule, without the mutex.
struct KeyMetadata {
  std::string name;
  DType dtype = DType::kUnknown;
  Shape shape;
  Version version = 0;
  uint64_t value_bytes = 0;
  uint64_t state_bytes = 0;
  uint64_t update_count = 0;
  Multipliers multipliers;
  // Null of a key as a snapshot has it: the status says nothing of rules then.
  SharedRule rule;
  std::optional<uint64_t> digest;
};

// Returns what it reads. REQUIRES: the mutex is held.
KeyMetadata MetadataOf(const StoredKey& key);

// Returns what the status of the key will take, about: it has all of its key's
// rule, which may be a long text.
uint64_t StatusBytes(const KeyMetadata& key);

// Adds the statuses of `keys` to those of a reply.
void AddStatuses(std::vector<KeyMetadata> keys,
                 google::protobuf::RepeatedPtrField<KeyStatus>& statuses);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_STATUS_H_
