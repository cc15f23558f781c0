// Tensors on a backend's device, for tests: copied one by one, and waited for.

#ifndef TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_
#define TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/answer.h"
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

  bool HasEnded() const { return outcome_.HasArrived(); }
  absl::Status Wait() const { return outcome_.Wait(); }

 private:
  const Answer<absl::Status> outcome_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_
