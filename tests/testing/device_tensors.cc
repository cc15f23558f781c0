#include "tests/testing/device_tensors.h"

#include <memory>
#include <utility>

#include "base/mutex.h"
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
  return Tensor::OfBuffer(host.dtype(), host.shape(), std::move(buffer));
}

absl::StatusOr<Tensor> ToHost(Backend& backend, const Tensor& device) {
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   HostBuffer::Allocate(device.size_bytes()));
  struct Outcome {
    absl::Status status;
    Notification arrived;
  };
  // Shared: whoever brings it may go on with it for a moment.
  const auto outcome = std::make_shared<Outcome>();
  backend.CopyToHost({CopyOf(device, *buffer)}, [outcome](absl::Status status) {
    outcome->status = std::move(status);
    outcome->arrived.Notify();
  });
  outcome->arrived.WaitForNotification();
  RETURN_IF_ERROR(outcome->status);
  return Tensor::OfBuffer(device.dtype(), device.shape(), std::move(buffer));
}

}  // namespace tensorkv::testing
