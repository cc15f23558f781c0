#include "bench/data_path/peers/memcpy_peer.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "bench/harness/clocks.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

class MemcpyLoad final : public Load {
 public:
  MemcpyLoad(const Workload& workload, Tensor from, Tensor to)
      : Load({.bytes_per_call = workload.bytes_per_call(),
              .keys_per_call = workload.num_keys}),
        copies_per_call_(workload.verb == Verb::kPushPull ? 2 : 1),
        from_(std::move(from)),
        to_(std::move(to)) {}

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    const absl::Duration start = SteadyTime();
    for (int64_t i = 0; i < num_calls * copies_per_call_; ++i) Copy();
    const absl::Duration took = SteadyTime() - start;
    latencies->insert(latencies->end(), num_calls, took / num_calls);
    return absl::OkStatus();
  }

 private:
  void Copy() {
    std::memcpy(to_.mutable_data(), from_.data(), from_.size_bytes());
    // So that the compiler keeps every copy.
    asm volatile("" : : "r"(to_.data()) : "memory");
  }

  const int64_t copies_per_call_;
  const Tensor from_;
  Tensor to_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Load>> MemcpyPeer::MakeLoad(
    const Workload& workload) {
  ASSIGN_OR_RETURN(Tensor from, MakeValues(workload.bytes_per_lane()));
  ASSIGN_OR_RETURN(Tensor to, MakeRoom(workload.bytes_per_lane()));
  return std::make_unique<MemcpyLoad>(workload, std::move(from), std::move(to));
}

}  // namespace tensorkv::bench
