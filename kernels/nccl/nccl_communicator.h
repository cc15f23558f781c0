// Processes that send each other memory of their GPUs.

#ifndef TENSORKV_KERNELS_NCCL_NCCL_COMMUNICATOR_H_
#define TENSORKV_KERNELS_NCCL_NCCL_COMMUNICATOR_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/nccl/nccl_library.h"
#include "nccl.h"

namespace tensorkv {

// A communicator that never blocks: whatever another process does, calls end by
// their deadlines. What fails or comes too late breaks it, for good, and is
// aborted at once, so that nothing of it is left on the GPU: make another one,
// with another id. Used by one thread at a time, with its device current.
class NcclCommunicator {
 public:
  struct Environment {
    NcclFunctions nccl;
    // Time since an arbitrary start.
    std::function<absl::Duration()> now;
    // Lets a little time pass before the next look.
    std::function<void()> pause;
  };

  // For one of the processes to make, and for all to be given.
  // Errors: those of StatusOfNccl.
  static absl::StatusOr<std::string> NewId(const NcclFunctions& nccl);

  // Waits until all `size` processes of that id are there.
  // Errors: InvalidArgument (no id) · DeadlineExceeded · those of StatusOfNccl.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(
      const Environment& environment, const std::string& id, int rank, int size,
      absl::Duration deadline);
  // Aborts what is under way.
  ~NcclCommunicator() { Abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;

  // Memory of the device, by rank of the other process; each piece is one
  // message. What one sends another the other receives, in the same order.
  struct Transfers {
    std::vector<std::vector<absl::Span<const char>>> sends;
    std::vector<std::vector<absl::Span<char>>> receives;
  };
  // Makes all of them in one group, on the stream, and waits until `is_done`,
  // which tells whether the stream has come to their end.
  // Errors: Unavailable: broken before · DeadlineExceeded · those of
  // StatusOfNccl and of `is_done`.
  absl::Status Exchange(const Transfers& transfers, cudaStream_t stream,
                        const std::function<absl::StatusOr<bool>()>& is_done,
                        absl::Duration deadline);

  bool is_broken() const { return comm_ == nullptr; }

 private:
  NcclCommunicator(Environment environment, int rank)
      : environment_(std::move(environment)), rank_(rank) {}

  // Waits for what a call has begun.
  absl::Status WaitFor(ncclResult_t begun, absl::string_view call,
                       absl::Duration deadline);
  absl::Status Enqueue(const Transfers& transfers, cudaStream_t stream);
  absl::Status WaitUntilDone(
      const std::function<absl::StatusOr<bool>()>& is_done,
      absl::Duration deadline);
  void Abort();

  const Environment environment_;
  const int rank_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_NCCL_NCCL_COMMUNICATOR_H_
