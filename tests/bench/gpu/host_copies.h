// Plain copies that take no GPU.

#ifndef TENSORKV_TESTS_BENCH_GPU_HOST_COPIES_H_
#define TENSORKV_TESTS_BENCH_GPU_HOST_COPIES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bench/gpu/plain_copies.h"

namespace tensorkv::testing {

// Copies within the host's memory, whatever the direction.
class HostCopies final : public bench::gpu::PlainCopies {
 public:
  // Which loads were made.
  struct Made {
    bench::gpu::CopyDirection direction;
    int64_t size_bytes;

    friend bool operator==(const Made&, const Made&) = default;
  };
  const std::vector<Made>& made() const { return made_; }

  // Loads cannot be made from then on.
  void Break(absl::Status status) { status_ = std::move(status); }

  std::string device_name() const override { return "host"; }
  absl::StatusOr<std::unique_ptr<bench::Load>> MakeLoad(
      bench::gpu::CopyDirection direction, int64_t size_bytes) override {
    made_.push_back({direction, size_bytes});
    if (!status_.ok()) return status_;
    const int64_t moved = BytesMovedBy(direction, size_bytes);
    return std::make_unique<bench::FunctionLoad>(
        bench::LoadShape{.bytes_per_call = moved},
        [from = std::string(size_bytes, 'x'), to = std::string()](int) mutable {
          to = from;
          return absl::OkStatus();
        });
  }

 private:
  std::vector<Made> made_;
  absl::Status status_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_BENCH_GPU_HOST_COPIES_H_
