// How fake GPUs of one process reach each other.

#ifndef TENSORKV_TESTS_TESTING_OPEN_FAKE_LINK_H_
#define TENSORKV_TESTS_TESTING_OPEN_FAKE_LINK_H_

#include <memory>

#include "kernels/cuda/device_pool.h"
#include "kernels/device_link.h"

namespace tensorkv::testing {

// By a fake library of NCCL, found at run time as the real one is; without the
// CUDA toolkit, and so with sanitizers, by the same fake without NCCL's names.
std::unique_ptr<DeviceLink> OpenFakeLink(std::shared_ptr<DevicePool> pool);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_OPEN_FAKE_LINK_H_
