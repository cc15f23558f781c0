// Holds what the store keeps for one key, and the updates that wait for it.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_STORED_KEY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_STORED_KEY_H_

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "service/store/keyspace/rules/rule_bindings.h"
#include "service/store/keyspace/rules/rule_state.h"
#include "service/store/keyspace/updates/pending_update.h"
#include "service/store/snapshot.h"
#include "service/store/tensor_store.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Bounded staleness: what each worker has contributed to a key last.
struct LastContributions {
  struct Of {
    uint64_t identity = Contributor::kUnknown;
    Step step = 0;
  };
  std::vector<ContributionSnapshot> ToSnapshot() const;

  // One place for each rank; their number grows by doubling.
  std::vector<Of> by_rank;
  Reservation overhead;
};

// Bytes that a key takes besides name, value and rule's state: this object, the
// value's buffer, its places in the tables, what the allocator adds.
inline constexpr uint64_t kKeyOverheadBytes = 300;

inline uint64_t KeyOverheadBytes(absl::string_view name) {
  return kKeyOverheadBytes + name.size();
}

// A key and its value. Not thread-safe: guarded by the namespace's mutex. Its
// table keeps a key that was deleted for as long as an update of it runs.
//
// There may be millions of keys, so dimensions and name lie behind the object
// in the same allocation, what few keys need is behind a pointer, and the order
// of the members leaves no gaps.
//
// Invariants:
//  1. At most one update of a key runs at a time; is_updating says so.
//  2. While is_updating, only the running update reads or writes rule_state's
//     buffers, and only it replaces `value` and `version`.
//  3. Only who changes rules changes `rule` and which tensors rule_state has,
//     under the namespace's mutex, and may read them without.
//  4. `value` is written only while value_is_changing, which is set only when
//     no one else holds the buffer; nobody may take the buffer meanwhile.
//  5. Changes begin in the order of their revisions. Open snapshots that are
//     older than `revision` have what the key was before, or will get it by
//     what they have in its queue.
class StoredKey final : public RefCounted {
 public:
  static RefPtr<StoredKey> Create(absl::string_view name, DType dtype,
                                  const Shape& shape);
  ~StoredKey() override;
  // Frees an object as large as Create made it.
  static void operator delete(void* memory) { ::operator delete(memory); }

  absl::string_view name() const { return {name_data(), name_size_}; }
  DType dtype() const { return dtype_; }
  Shape shape() const { return Shape::OfValid(dimensions()); }
  // Most have one dimension or two: a comparison of memory would take longer.
  bool HasShape(const Shape& shape) const {
    const int64_t* const own = dimensions().data();
    const int64_t* const others = shape.dimensions().data();
    bool is_same = shape.rank() == rank_;
    for (int i = 0; is_same && i < rank_; ++i) is_same = own[i] == others[i];
    return is_same;
  }

  // Has `account`, which has counted the key's KeyOverheadBytes, get them back
  // with its end. REQUIRES: called at most once.
  void ChargeTo(RefPtr<BudgetAccount> account) {
    overhead_account_ = std::move(account);
  }

  bool has_pending() const { return extras_ && !extras_->pending.empty(); }
  // Returns how many updates end before one that is added now. Accesses make no
  // versions, and each server has others in the queues of a mirrored namespace.
  uint64_t num_updates_ahead() const;
  // Returns how many updates have made the present value.
  uint64_t num_applied() const { return update_count - counts_running_update; }
  // Count an update that begins, and end that: one that failed counts no more.
  uint64_t CountUpdate() {
    runs_update = counts_running_update = true;
    return ++update_count;
  }
  void EndCount(bool is_applied) {
    if (counts_running_update && !is_applied) --update_count;
    runs_update = counts_running_update = false;
  }
  void ResetUpdateCount() {
    counts_running_update = false;
    update_count = 0;
  }
  // Returns the version of the update that ends now, above `floor`.
  // LastVersionOf told a removed key's: later keys of its name are above it.
  Version NextVersion(Version floor) const {
    return (is_removed ? version : std::max(version, floor)) + 1;
  }
  // Records that the key has left its table; versions ahead are above `floor`.
  void Retire(Version floor) {
    if (num_updates_ahead() > 0) version = std::max(version, floor);
    is_removed = true;
  }
  uint64_t value_bytes() const { return value->size_bytes(); }
  // Computed from the shape, as `value` may be replaced while a sum is made.
  int64_t num_elements() const {
    int64_t product = 1;
    for (const int64_t dimension : dimensions()) product *= dimension;
    return product;
  }
  // Returns how many elements a contribution brings.
  int64_t NumElementsOf(const Slot& slot) const {
    return slot.rows ? num_elements_of_row() * slot.rows->size()
                     : num_elements();
  }
  Tensor ToTensor() const { return Tensor::Unchecked(dtype_, shape(), value); }
  // Returns 0 for a scalar, which has no rows.
  int64_t num_rows() const { return rank_ == 0 ? 0 : dimensions()[0]; }
  int64_t num_elements_of_row() const {
    return num_rows() == 0 ? 0 : num_elements() / num_rows();
  }
  // Returns whether an update may write to the value now.
  bool is_writable() const {
    return num_pulls_pinning == 0 && value->IsUnique();
  }

  // Returns the contributor of that rank to `step`, as far as `contributions`
  // tell.
  std::optional<Contributor> FindContributor(uint32_t rank, Step step) const;
  // Returns how many bytes RecordContribution will need for a worker of that
  // rank.
  uint64_t BytesToRecord(uint32_t rank) const;
  // `overhead` has BytesToRecord.
  void RecordContribution(const Contributor& by, Step step,
                          Reservation overhead);
  // Returns null outside of bounded namespaces.
  const LastContributions* contributions() const {
    return extras_ ? extras_->contributions.get() : nullptr;
  }

  // Returns the updates and accesses that wait, in their order.
  std::list<PendingUpdate>& pending() { return extras().pending; }
  // Removes the first of them. REQUIRES: has_pending().
  PendingUpdate TakePending();

  // Waiting pulls that need this key and others at one moment. While there are
  // any, updates do not write in place, so that the value stays readable.
  // First, because the base class ends with 4 bytes of padding.
  uint32_t num_pulls_pinning = 0;

  RefPtr<Buffer> value;
  Version version = 1;
  // That of the last change that was admitted, which has begun or waits.
  uint64_t revision = 0;
  // Counts an update from its begin on.
  uint64_t update_count = 0;

  SharedRule rule;
  SharedMultipliers multipliers;
  // Null for a rule that keeps nothing.
  RefPtr<RuleState> rule_state;

  // Null outside of sync namespaces.
  std::unique_ptr<Rounds> rounds;

  // Position + 1 of the key's last entry seen by the check of a call, 0 outside
  // of a check.
  uint32_t position_in_call : 26 = 0;

  bool is_updating : 1 = false;
  bool value_is_changing : 1 = false;
  // What the key is_updating for is an update.
  bool runs_update : 1 = false;
  // update_count has the update that runs.
  bool counts_running_update : 1 = false;
  bool is_removed : 1 = false;
  // Snapshots have taken the present value, and may have it still.
  bool value_is_kept : 1 = false;

 private:
  // What most keys lack most of the time.
  struct Extras {
    std::list<PendingUpdate> pending;
    std::unique_ptr<LastContributions> contributions;
  };

  StoredKey(absl::string_view name, DType dtype, const Shape& shape);

  Extras& extras() {
    if (!extras_) extras_ = std::make_unique<Extras>();
    return *extras_;
  }

  absl::Span<const int64_t> dimensions() const {
    return {reinterpret_cast<const int64_t*>(this + 1), rank_};
  }
  const char* name_data() const {
    return reinterpret_cast<const char*>(this + 1) + rank_ * sizeof(int64_t);
  }

  const DType dtype_;
  const uint16_t rank_ : 4;
  const uint16_t name_size_ : 12;
  RefPtr<BudgetAccount> overhead_account_;
  // Null when empty.
  std::unique_ptr<Extras> extras_;
};

// tcmalloc gives multiples of 16 bytes: a key with one dimension and a name of
// 10 to 16 bytes takes 128, where a larger object would make it 144.
static_assert(sizeof(StoredKey) <= 104);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_STORED_KEY_H_
