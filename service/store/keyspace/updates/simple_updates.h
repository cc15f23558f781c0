// Updates of the simplest kind, which most pushes of many keys are made of.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_SIMPLE_UPDATES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_SIMPLE_UPDATES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "contract/data_requests.h"
#include "kernels/backend.h"
#include "service/store/keyspace/stored_key.h"

namespace tensorkv {

// Says what an update of no elements costs, as bytes that are read and written.
inline constexpr uint64_t kUpdateBytes = 64;

// Updates of one call, each by one whole tensor in the dtype of its key, with a
// rule that keeps nothing and looks at nothing else, of values that are written
// in place. They need a fraction of what an UpdatePass::Item keeps, and run in
// batches that fit into a second-level cache.
//
// Used by one thread at a time; Add is called with the namespace's mutex held,
// Run without it.
class SimpleUpdates {
 public:
  struct Update {
    StoredKey* key = nullptr;  // which stays while it is_updating
    const UpdateRule* rule = nullptr;
    const char* data = nullptr;  // the contribution's elements
    uint64_t update_count = 0;
    uint32_t result = 0;  // its index in the reply
  };

  // Adds the update by the only entry that a call has for `key`, if it is of
  // this kind; false, and nothing has happened, if not. It makes result number
  // `result` of `call`. The key then is_updating. REQUIRES: the entry fits the
  // key, which has the call's revision; no update of the key runs; the call is
  // that of the others.
  bool Add(StoredKey* key, const RefPtr<QueuedCall>& call,
           const PushEntry& entry, uint32_t result);

  // Writes the values, up to the first error.
  void Run(Backend& device);
  // Has all updates end with `status`; Run is not called.
  void EndWithoutRun(const absl::Status& status) { status_ = status; }
  // Returns the first error.
  const absl::Status& status() const { return status_; }
  // Returns how an update has ended; if not well, its value has not changed.
  const absl::Status& StatusOf(const Update& update) const {
    const bool has_run =
        static_cast<size_t>(&update - updates_.data()) < num_run_;
    return has_run ? ok_ : status_;
  }
  // Ends the update. If `status`, its own, is OK, the key has the next version,
  // above `restored_versions`: the value is in place.
  static void Complete(const Update& update, const absl::Status& status,
                       Version restored_versions);

  absl::Span<const Update> updates() const { return updates_; }
  // Returns how many of them, the first ones, have ended well.
  size_t num_run() const { return num_run_; }
  const RefPtr<QueuedCall>& call() const { return call_; }
  // Returns the revision of the call.
  uint64_t revision() const { return revision_; }
  // Returns what UpdatePass::work_bytes returns, of these.
  uint64_t work_bytes() const { return work_bytes_; }
  // Allocates memory for so many updates.
  void Reserve(size_t num_updates) { updates_.reserve(num_updates); }

 private:
  // A rule, and what matters of it.
  struct AskedRule {
    AskedRule() = default;
    explicit AskedRule(const UpdateRule& rule);

    const UpdateRule* rule = nullptr;
    bool looks_at_nothing_else = false;
    bool is_assign = false;
    uint64_t work_factor = 1;
  };

  // Returns whether the entry's update is of this kind. REQUIRES: asked_ is the
  // key's rule.
  bool IsSimple(const StoredKey& key, const PushEntry& entry) const;

  std::vector<Update> updates_;
  RefPtr<QueuedCall> call_;
  uint64_t revision_ = 0;
  // Keep what the updates point to, without repetition in a row.
  std::vector<SharedRule> rules_;
  std::vector<RefPtr<Buffer>> buffers_;
  uint64_t work_bytes_ = 0;
  AskedRule asked_;  // the last one
  size_t num_run_ = 0;
  absl::Status status_;
  const absl::Status ok_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_SIMPLE_UPDATES_H_
