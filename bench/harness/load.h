// What is measured: calls of one kind.

#ifndef TENSORKV_BENCH_HARNESS_LOAD_H_
#define TENSORKV_BENCH_HARNESS_LOAD_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tensorkv::bench {

struct LoadShape {
  // Bytes of tensors that one call moves, both ways.
  int64_t bytes_per_call = 0;
  int64_t keys_per_call = 1;
  // Calls under way at once.
  int in_flight = 1;
  // Whose CPU time counts beside this process's; 0: nobody's.
  pid_t server = 0;
};

// Calls of one kind, ready to be made. Holds what they need (keys that exist,
// buffers) and gives it back when it is destroyed. Not thread-safe.
class Load {
 public:
  explicit Load(const LoadShape& shape) : shape_(shape) {}
  virtual ~Load() = default;

  const LoadShape& shape() const { return shape_; }

  // Makes `num_calls` calls, shape().in_flight at once, and appends the time
  // that each took to `latencies`. An error ends the run.
  virtual absl::Status Run(int64_t num_calls,
                           std::vector<absl::Duration>* latencies) = 0;

 private:
  const LoadShape shape_;
};

// One call after the other, each a call of a function.
class FunctionLoad final : public Load {
 public:
  FunctionLoad(const LoadShape& shape, std::function<absl::Status()> call)
      : Load(shape), call_(std::move(call)) {}

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override;

 private:
  const std::function<absl::Status()> call_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_LOAD_H_
