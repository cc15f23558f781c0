// The update kernels as loops on the host, for devices that are none.

#ifndef TENSORKV_TESTS_TESTING_HOST_UPDATE_H_
#define TENSORKV_TESTS_TESTING_HOST_UPDATE_H_

#include "kernels/cuda/update_work.h"

namespace tensorkv::testing {

// Does what the kernel would: every chunk, every thread of its block, with the
// same code. All pointers are host memory.
void RunUpdateOnHost(const UpdateLaunch& launch);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_HOST_UPDATE_H_
