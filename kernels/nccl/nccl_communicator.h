// Processes that send each other memory of their GPUs.

#ifndef TENSORKV_KERNELS_NCCL_NCCL_COMMUNICATOR_H_
#define TENSORKV_KERNELS_NCCL_NCCL_COMMUNICATOR_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/device_link.h"
#include "kernels/nccl/nccl_library.h"
#include "nccl.h"

namespace tensorkv {

// A communicator that never blocks, and is aborted when it breaks.
class NcclCommunicator final : public DeviceGroup {
 public:
  struct Environment {
    NcclFunctions nccl;
    // That transfers are on.
    cudaStream_t stream = nullptr;
    // Makes its device that of the thread, and has it wait for all memory that
    // was allocated.
    std::function<absl::Status()> begin;
    // Whether it has come to the end of the transfers.
    std::function<absl::StatusOr<bool>()> is_done;
    // Lets a little time pass before the next look.
    std::function<void()> pause;
  };

  // For one of the processes to make, and for all to be given.
  // Errors: those of StatusOfNccl.
  static absl::StatusOr<std::string> NewId(const NcclFunctions& nccl);

  // Waits until all `size` processes of that id are there.
  // Errors: InvalidArgument (no id) · those of `may_wait`, of StatusOfNccl and
  // of `begin`.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(
      const Environment& environment, const std::string& id, uint32_t rank,
      uint32_t size, MayWait may_wait);
  ~NcclCommunicator() override { Abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;

  // In one group of NCCL.
  absl::Status Exchange(const Transfers& transfers, MayWait may_wait) override;

  bool is_broken() const { return comm_ == nullptr; }

 private:
  NcclCommunicator(Environment environment, uint32_t rank)
      : environment_(std::move(environment)), rank_(rank) {}

  // Waits for what a call has begun.
  absl::Status WaitFor(ncclResult_t begun, absl::string_view call,
                       MayWait may_wait);
  absl::Status Enqueue(const Transfers& transfers);
  absl::Status WaitUntilDone(MayWait may_wait);
  void Abort();

  const Environment environment_;
  const uint32_t rank_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_NCCL_NCCL_COMMUNICATOR_H_
