// Reads or writes a key between its updates, without being one.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_ACCESS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_ACCESS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"

namespace tensorkv {

class StoredKey;

// Reads or writes a key's states or value between two of its updates, in whose
// queue it waits: none of them runs from Begin to End. Used by one thread at a
// time.
class KeyAccess : public RefCounted {
 public:
  // Returns whether the access changes the key.
  virtual bool writes() const { return false; }
  // Returns whether it needs the key's states: StateAccess does, RowAccess does
  // not.
  virtual bool uses_states() const { return true; }

  // Begin finds what Run copies; End writes what is kept in the key itself.
  // Begin and End are called with the namespace's mutex held, Run without it.
  // REQUIRES for Run: the key's states are filled, if the access uses them.
  virtual void Begin(const StoredKey& key) = 0;
  virtual void Run(Backend& device) = 0;
  virtual void End(StoredKey& key) const {}

  // Returns the first error of Begin or Run.
  const absl::Status& status() const { return status_; }
  // Returns how many bytes are read and written.
  virtual uint64_t size_bytes() const = 0;

 protected:
  absl::Status status_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_ACCESS_H_
