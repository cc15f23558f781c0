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
  // A trial has no fewer, however long they take.
  int least_calls_per_trial = 1;
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

// Each call is a call of a function that blocks. There are shape().in_flight
// lanes, each of which makes one call after the other: a single one on the
// thread of the caller, several on threads of their own.
class FunctionLoad final : public Load {
 public:
  using Call = std::function<absl::Status(int lane)>;

  // `clean_up` runs at the end.
  FunctionLoad(
      const LoadShape& shape, Call call, std::function<void()> clean_up = [] {})
      : Load(shape), call_(std::move(call)), clean_up_(std::move(clean_up)) {}
  ~FunctionLoad() override { clean_up_(); }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override;

 private:
  const Call call_;
  const std::function<void()> clean_up_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_LOAD_H_
