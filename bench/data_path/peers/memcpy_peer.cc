#include "bench/data_path/peers/memcpy_peer.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

absl::StatusOr<std::unique_ptr<Load>> MakeLoad(const Workload& workload) {
  ASSIGN_OR_RETURN(Tensor from, MakeValues(workload.bytes_per_lane()));
  ASSIGN_OR_RETURN(Tensor to, MakeRoom(workload.bytes_per_lane()));
  LoadShape shape = ShapeOf(workload, /*server=*/0);
  shape.in_flight = 1;
  const bool copies_twice = workload.verb == Verb::kPushPull;
  return std::make_unique<FunctionLoad>(
      shape,
      [copies_twice, from = std::move(from), to = std::move(to)](int) mutable {
        for (int i = 0; i < (copies_twice ? 2 : 1); ++i) {
          std::memcpy(to.mutable_data(), from.data(), from.size_bytes());
          // So that the compiler keeps every copy.
          asm volatile("" : : "r"(to.data()) : "memory");
        }
        return absl::OkStatus();
      });
}

}  // namespace

Peer MemcpyPeer() { return {.name = "memcpy", .make_load = MakeLoad}; }

}  // namespace tensorkv::bench
