#include "kernels/nccl/nccl_link.h"

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "kernels/nccl/nccl_communicator.h"

namespace tensorkv {
namespace {

// Little beside what an exchange takes, and enough to leave a core to others.
constexpr absl::Duration kPause = absl::Microseconds(20);

struct OwnStream {
  std::shared_ptr<DevicePool> pool;
  std::unique_ptr<Stream> stream;
};

}  // namespace

absl::StatusOr<std::string> NcclLink::NewGroupId() {
  return NcclCommunicator::NewId(nccl_);
}

absl::StatusOr<std::unique_ptr<DeviceGroup>> NcclLink::Join(
    const std::string& id, uint32_t rank, uint32_t size, MayWait may_wait) {
  const auto own = std::make_shared<OwnStream>(OwnStream{pool_, nullptr});
  ASSIGN_OR_RETURN(own->stream, pool_->device().CreateStream(StreamUse::kLink));
  const NcclCommunicator::Environment environment = {
      .nccl = nccl_,
      .stream = static_cast<cudaStream_t>(own->stream->handle()),
      .begin =
          [own] { return own->pool->OrderBehindAllocations(*own->stream); },
      // The stream goes with the communicator, after that was aborted.
      .is_done = [own] { return own->stream->IsDone(); },
      .pause = [] { absl::SleepFor(kPause); }};
  return NcclCommunicator::Create(environment, id, rank, size, may_wait);
}

}  // namespace tensorkv
