// A communicator of NCCL: processes that send each other memory of their GPUs.

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

// A group whose calls of NCCL never block, so that MayWait can end them. The
// communicator of NCCL is aborted when a call fails.
class NcclCommunicator final : public DeviceGroup {
 public:
  struct Environment {
    NcclFunctions nccl;
    // The stream that transfers are put on.
    cudaStream_t stream = nullptr;
    // Called before each call: makes the stream's device the thread's current
    // one, and the stream wait for all memory that was allocated.
    std::function<absl::Status()> begin;
    // Whether the stream has done all its work.
    std::function<absl::StatusOr<bool>()> is_done;
    // Sleeps a little, between two looks at what a call waits for.
    std::function<void()> pause;
  };

  // Does what DeviceLink::NewGroupId does. Errors: those of StatusOfNccl.
  static absl::StatusOr<std::string> NewId(const NcclFunctions& nccl);

  // Does what DeviceLink::Join does: blocks until all `size` processes have
  // called it with this id.
  // Errors: InvalidArgument (no id) · those of `may_wait`, of StatusOfNccl and
  // of `begin`.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(
      const Environment& environment, const std::string& id, uint32_t rank,
      uint32_t size, MayWait may_wait);
  ~NcclCommunicator() override { Abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;

  // Makes the transfers in one group of NCCL.
  absl::Status Exchange(const Transfers& transfers, MayWait may_wait) override;

  // Returns whether a call has failed: then all later ones do.
  bool is_broken() const { return comm_ == nullptr; }

 private:
  NcclCommunicator(Environment environment, uint32_t rank)
      : environment_(std::move(environment)), rank_(rank) {}

  // Waits until NCCL has done `call`, which has returned `begun`, and aborts
  // the communicator if that fails.
  absl::Status WaitFor(ncclResult_t begun, absl::string_view call,
                       MayWait may_wait);
  absl::Status Enqueue(const Transfers& transfers);
  // Waits until the stream has done the transfers.
  absl::Status WaitUntilDone(MayWait may_wait);
  // Aborts the communicator; no effect if that has been done.
  void Abort();

  const Environment environment_;
  const uint32_t rank_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_NCCL_NCCL_COMMUNICATOR_H_
