#include "tests/testing/test_device.h"

#include <cstdlib>

namespace tensorkv::testing {

std::string TestDevice() {
  const char* const device = std::getenv("TENSORKV_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

DeviceChoice TestDeviceChoice() {
  return ParseDeviceChoice(TestDevice()).value();
}

}  // namespace tensorkv::testing
