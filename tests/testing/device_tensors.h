// Tensors on a backend's device, for tests: copied one by one, and waited for.

#ifndef TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_
#define TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/backend.h"
#include "tensor/tensor.h"

namespace tensorkv::testing {

// The tensor's elements in memory of the device. Errors: the backend's.
absl::StatusOr<Tensor> ToDevice(Backend& backend, const Tensor& host);

// The tensor's elements in host memory. Errors: the backend's.
absl::StatusOr<Tensor> ToHost(Backend& backend, const Tensor& device);

// A copy to the host that is waited for later, or never.
class CopyToHost {
 public:
  CopyToHost(Backend& backend, std::vector<MemoryCopy> copies);

  bool HasEnded() const { return outcome_->arrived.HasBeenNotified(); }
  absl::Status Wait() const;

 private:
  // Shared with whoever brings it, who may go on with it for a moment.
  struct Outcome {
    absl::Status status;
    Notification arrived;
  };
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_
