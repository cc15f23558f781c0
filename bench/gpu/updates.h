// Updates as loads.

#ifndef TENSORKV_BENCH_GPU_UPDATES_H_
#define TENSORKV_BENCH_GPU_UPDATES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/harness/load.h"
#include "bench/key_update.h"
#include "kernels/backend.h"

namespace tensorkv::bench::gpu {

// Some keys' updates, all of one shape. Shared by the loads over it, of which
// one runs at a time.
class Updates {
 public:
  // `backend` outlives them.
  // Errors: those of UpdateRule::Create and the backend.
  static absl::StatusOr<std::shared_ptr<const Updates>> Create(
      Backend* backend, const RuleSpec& rule, const KeyUpdateShape& shape,
      int64_t num_updates);

  // What all of them must move.
  int64_t bytes_moved() const;

  // A call applies all of them: in one batch, or each by itself, one after the
  // other.
  static std::unique_ptr<Load> InOneBatch(
      std::shared_ptr<const Updates> updates);
  static std::unique_ptr<Load> OneByOne(std::shared_ptr<const Updates> updates);

 private:
  Updates(Backend* backend, UpdateRule rule)
      : backend_(*backend), rule_(std::move(rule)) {}

  LoadShape shape() const;
  absl::Status ApplyTogether() const;
  absl::Status ApplyOneByOne() const;

  Backend& backend_;
  const UpdateRule rule_;
  std::vector<KeyUpdate> keys_;
  std::vector<TensorUpdate> batch_;
};

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_UPDATES_H_
