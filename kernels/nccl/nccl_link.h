// Brings a GPU together with those of other processes, by NCCL.

#ifndef TENSORKV_KERNELS_NCCL_NCCL_LINK_H_
#define TENSORKV_KERNELS_NCCL_NCCL_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/cuda/device_pool.h"
#include "kernels/device_link.h"
#include "kernels/nccl/nccl_library.h"

namespace tensorkv {

// A link whose groups are communicators of NCCL, each with a stream of its own.
// Thread-safe.
class NcclLink final : public DeviceLink {
 public:
  // Groups transfer memory of `pool`. gpu() returns `gpu`.
  NcclLink(std::shared_ptr<DevicePool> pool, const NcclFunctions& nccl,
           std::string gpu = "")
      : pool_(std::move(pool)), nccl_(nccl), gpu_(std::move(gpu)) {}

  uint32_t version() const override {
    return static_cast<uint32_t>(nccl_.version);
  }
  std::string gpu() const override { return gpu_; }
  absl::StatusOr<std::string> NewGroupId() override;
  absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(const std::string& id,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    MayWait may_wait) override;

 private:
  const std::shared_ptr<DevicePool> pool_;
  const NcclFunctions nccl_;
  const std::string gpu_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_NCCL_NCCL_LINK_H_
