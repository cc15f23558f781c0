// Reads or writes a key between its updates, without being one.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_KEY_ACCESS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_KEY_ACCESS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "kernels/update_rule.h"

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

  // Is called while the access waits, before the key gets another rule or other
  // states.
  virtual void BeforeRuleChange(const StoredKey& key) {}

  // Begin finds what is to be copied; End writes what is kept in the key
  // itself. `status` says what became of it, `rule` the one that the key had at
  // Begin. Both are called with the namespace's mutex held, the others without.
  // REQUIRES for AddCopies and Run: the key's states are filled, if the access
  // uses them.
  virtual void Begin(StoredKey& key) = 0;
  // Adds copies from and to host memory, which are made together with those of
  // others, before Run. Only accesses that add some fail with them.
  virtual void AddCopies(std::vector<MemoryCopy>& uploads,
                         std::vector<MemoryCopy>& downloads) {}
  virtual void Run(Backend& device) {}
  virtual void End(StoredKey& key, const absl::Status& status,
                   const UpdateRule& rule) {}

  // Returns the first error of Begin, AddCopies or Run.
  const absl::Status& status() const { return status_; }
  // Keeps `status` if it is the first error.
  void Fail(const absl::Status& status) { status_.Update(status); }
  // Returns how many bytes are read and written.
  virtual uint64_t size_bytes() const = 0;

 protected:
  absl::Status status_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_KEY_ACCESS_H_
