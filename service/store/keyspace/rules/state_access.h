// Reads and writes the states of a key, between its updates.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_STATE_ACCESS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_STATE_ACCESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "kernels/backend.h"
#include "kernels/update_rule.h"
#include "service/store/keyspace/updates/key_access.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace tensorkv {

class StoredKey;

// The states that every rule has, or may have.
inline constexpr absl::string_view kMasterState = "master";
inline constexpr absl::string_view kUpdateCountState = "update_count";

// KeyState is the name by which Pull and Init call a state of a key.
struct KeyState {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  // Where it is, on the key's device; null for the update count, a number of
  // the key.
  Buffer* buffer = nullptr;
};

// Returns all states of a key: those of its rule, the master copy if there is
// one, and its update count. The buffers live as long as key.rule_state, and
// are read and written by the key's updates and accesses alone. REQUIRES: the
// namespace's mutex is held.
std::vector<KeyState> StatesOf(const StoredKey& key);

// Returns the names of those that a key of `dtype` has under `rule`, but for
// the update count.
std::vector<std::string> StateNames(const UpdateRule& rule, DType dtype);

// Returns the state of that name. Errors: NotFound (STATE_NOT_FOUND). REQUIRES:
// the namespace's mutex is held.
absl::StatusOr<KeyState> FindState(const StoredKey& key,
                                   absl::string_view name);

// An access in which states are copied to or from host memory.
class StateAccess final : public KeyAccess {
 public:
  enum class Kind { kRead, kWrite };

  explicit StateAccess(Kind kind) : kind_(kind) {}

  // Adds a state to copy, to `tensor` (kRead) or from it (kWrite), which is
  // host memory of the state's dtype and shape as they are now.
  void Add(std::string state, Tensor tensor) {
    entries_.push_back({std::move(state), std::move(tensor)});
  }

  bool empty() const { return entries_.empty(); }

  bool writes() const override { return kind_ == Kind::kWrite; }
  // Finds the states, which may have changed with the rule since.
  void Begin(StoredKey& key) override;
  void AddCopies(std::vector<MemoryCopy>& uploads,
                 std::vector<MemoryCopy>& downloads) override;
  void End(StoredKey& key, const absl::Status& status,
           const UpdateRule& rule) override;
  uint64_t size_bytes() const override;

 private:
  struct Entry {
    std::string state;
    Tensor tensor;
    // True if the state turned out to be the update count.
    bool is_number = false;
  };

  // Finds one state, and adds its copy to copies_.
  absl::Status BeginEntry(const StoredKey& key, Entry& entry);

  const Kind kind_;
  std::vector<Entry> entries_;
  std::vector<MemoryCopy> copies_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_STATE_ACCESS_H_
