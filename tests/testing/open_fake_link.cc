#include "tests/testing/open_fake_link.h"

#include <utility>

#include "kernels/nccl/nccl_library.h"
#include "kernels/nccl/nccl_link.h"

namespace tensorkv::testing {

std::unique_ptr<DeviceLink> OpenFakeLink(std::shared_ptr<DevicePool> pool) {
  return std::make_unique<NcclLink>(
      std::move(pool), LoadNccl("tests/testing/libfake_nccl.so").value());
}

}  // namespace tensorkv::testing
