#include "tests/testing/device_tensors.h"

#include <utility>

#include "base/status_macros.h"

namespace tensorkv::testing {
namespace {

MemoryCopy CopyOf(const Tensor& from, Buffer& to) {
  return {from.data(), to.mutable_data(),
          static_cast<size_t>(from.size_bytes())};
}

}  // namespace

absl::StatusOr<Tensor> ToDevice(Backend& backend, const Tensor& host) {
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   backend.Allocate(host.size_bytes(), /*account=*/nullptr));
  RETURN_IF_ERROR(backend.CopyToDevice({CopyOf(host, *buffer)}));
  return Tensor::Unchecked(host.dtype(), host.shape(), std::move(buffer));
}

absl::StatusOr<Tensor> ToHost(Backend& backend, const Tensor& device) {
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   HostBuffer::Allocate(device.size_bytes()));
  RETURN_IF_ERROR(CopyToHost(backend, {CopyOf(device, *buffer)}).Wait());
  return Tensor::Unchecked(device.dtype(), device.shape(), std::move(buffer));
}

CopyToHost::CopyToHost(Backend& backend, std::vector<MemoryCopy> copies) {
  backend.CopyToHost(std::move(copies),
                     [outcome = outcome_](absl::Status status) {
                       outcome.Set(std::move(status));
                     });
}

}  // namespace tensorkv::testing
