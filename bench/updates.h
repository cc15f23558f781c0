// Updates to measure: keys' tensors in the memory of a backend.

#ifndef TENSORKV_BENCH_UPDATES_H_
#define TENSORKV_BENCH_UPDATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "bench/harness/rows.h"
#include "kernels/backend.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {

struct KeyUpdateShape {
  DType dtype = DType::kF32;  // of the value and the contributions
  int64_t num_elements = 0;
  int num_contributions = 1;
  int64_t num_rows = 1;  // for rules with states per row or column
};

// The tensors of one key, updated in place. Every element is 0.5 at first.
// Not thread-safe.
class KeyUpdate {
 public:
  // `rule` outlives the update.
  // Errors: those of the backend.
  static absl::StatusOr<KeyUpdate> Create(Backend& backend,
                                          const UpdateRule* rule,
                                          const KeyUpdateShape& shape);

  // Returns the update; it is valid as long as this object, also when that has
  // been moved.
  TensorUpdate view() const;

 private:
  explicit KeyUpdate(const UpdateRule* rule) : rule_(rule) {}

  absl::StatusOr<MutableTensorView> Allocate(Backend& backend, DType dtype,
                                             int64_t num_elements);

  const UpdateRule* rule_;
  std::vector<RefPtr<Buffer>> buffers_;
  // In each of the buffers, one.
  std::vector<MutableTensorView> tensors_;

  int64_t num_rows_ = 1;
  MutableTensorView value_;
  std::vector<TensorView> contributions_;
  std::vector<MutableTensorView> states_;
  MutableTensorView master_;
};

// Returns the bytes that an update must read and write, whatever runs it: each
// contribution is read, states and the master are read and written, the value
// is written. It is read too, unless the rule reads the master or nothing in
// its place.
int64_t BytesMoved(const TensorUpdate& update);

// Some keys' updates, all of one shape.
struct Updates {
  // `backend` outlives them.
  // Errors: those of UpdateRule::Create and the backend.
  static absl::StatusOr<std::shared_ptr<Updates>> Create(
      Backend* backend, const RuleSpec& rule, const KeyUpdateShape& shape,
      int64_t num_updates);

  Backend* backend = nullptr;
  UpdateRule rule;
  std::vector<KeyUpdate> keys = {};
  std::vector<TensorUpdate> batch = {};
  int64_t bytes_moved = 0;  // by all of them
};

// A call applies all of them: in one batch, or each by itself, one after the
// other.
absl::StatusOr<Load> UpdateLoad(Backend* backend, const RuleSpec& rule,
                                const KeyUpdateShape& shape,
                                int64_t num_updates, bool in_one_batch = true);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_UPDATES_H_
