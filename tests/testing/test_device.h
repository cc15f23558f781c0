// Where tests keep their tensors that run on any device: where the
// environment's TENSORKV_TEST_DEVICE says, in the words of the server's
// --device, or on the CPU. run-tests of tools/package sets it.

#ifndef TENSORKV_TESTS_TESTING_TEST_DEVICE_H_
#define TENSORKV_TESTS_TESTING_TEST_DEVICE_H_

#include <string>

#include "service/server/device_choice.h"

namespace tensorkv::testing {

// "cpu" or such as "cuda:0".
std::string TestDevice();

// The same for a server in this process.
DeviceChoice TestDeviceChoice();

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_TEST_DEVICE_H_
