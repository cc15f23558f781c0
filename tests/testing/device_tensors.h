// Tensors on a backend's device, for tests: copied one by one, and waited for.

#ifndef TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_
#define TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "tensor/tensor.h"

namespace tensorkv::testing {

// The tensor's elements in memory of the device. Errors: the backend's.
absl::StatusOr<Tensor> ToDevice(Backend& backend, const Tensor& host);

// The tensor's elements in host memory. Errors: the backend's.
absl::StatusOr<Tensor> ToHost(Backend& backend, const Tensor& device);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_DEVICE_TENSORS_H_
