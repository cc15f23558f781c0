#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "tests/testing/fake_device_hub.h"
#include "tests/testing/open_fake_link.h"

namespace tensorkv::testing {
namespace {

FakeDeviceHub& Hub() {
  static FakeDeviceHub* const hub = new FakeDeviceHub();
  return *hub;
}

class FakeGroup final : public DeviceGroup {
 public:
  FakeGroup(std::shared_ptr<DevicePool> pool, std::unique_ptr<Stream> stream,
            std::shared_ptr<FakeDeviceHub::Member> member)
      : pool_(std::move(pool)),
        stream_(std::move(stream)),
        member_(std::move(member)) {}

  absl::Status Meet(MayWait may_wait) {
    while (!member_->has_met()) {
      RETURN_IF_ERROR(may_wait());
      std::this_thread::yield();
    }
    return absl::OkStatus();
  }

  absl::Status Exchange(const Transfers& transfers, MayWait may_wait) override {
    if (member_ == nullptr) return absl::UnavailableError("broken");
    absl::Status status = ExchangeUnbroken(transfers, may_wait);
    if (!status.ok()) member_ = nullptr;
    return status;
  }

 private:
  absl::Status ExchangeUnbroken(const Transfers& transfers, MayWait may_wait) {
    std::vector<FakeDeviceHub::Piece> pieces;
    for (uint32_t peer = 0; peer < transfers.sends.size(); ++peer) {
      for (const absl::Span<const char> piece : transfers.sends[peer]) {
        pieces.push_back(
            {peer, true, const_cast<char*>(piece.data()), piece.size()});
      }
    }
    for (uint32_t peer = 0; peer < transfers.receives.size(); ++peer) {
      for (const absl::Span<char> piece : transfers.receives[peer]) {
        pieces.push_back({peer, false, piece.data(), piece.size()});
      }
    }
    RETURN_IF_ERROR(pool_->OrderBehindAllocations(*stream_));
    auto* const handle = static_cast<FakeStreamHandle*>(stream_->handle());
    member_->Exchange(std::move(pieces), handle);
    for (;;) {
      ASSIGN_OR_RETURN(const bool is_done, stream_->IsDone());
      if (is_done) return absl::OkStatus();
      RETURN_IF_ERROR(may_wait());
      std::this_thread::yield();
    }
  }

  const std::shared_ptr<DevicePool> pool_;
  const std::unique_ptr<Stream> stream_;
  std::shared_ptr<FakeDeviceHub::Member> member_;  // leaves before the stream
};

class FakeLink final : public DeviceLink {
 public:
  explicit FakeLink(std::shared_ptr<DevicePool> pool)
      : pool_(std::move(pool)) {}

  uint32_t version() const override { return 1; }
  absl::StatusOr<std::string> NewGroupId() override { return Hub().NewId(); }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(const std::string& id,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    MayWait may_wait) override {
    if (id.size() != FakeDeviceHub::kIdBytes) {
      return absl::InvalidArgumentError("expected an id");
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                     pool_->device().CreateStream(StreamUse::kLink));
    std::shared_ptr<FakeDeviceHub::Member> member = Hub().Join(id, rank, size);
    if (member == nullptr) return absl::UnavailableError("no such group");
    auto group = std::make_unique<FakeGroup>(pool_, std::move(stream),
                                             std::move(member));
    RETURN_IF_ERROR(group->Meet(may_wait));
    return group;
  }

 private:
  const std::shared_ptr<DevicePool> pool_;
};

}  // namespace

std::unique_ptr<DeviceLink> OpenFakeLink(std::shared_ptr<DevicePool> pool) {
  return std::make_unique<FakeLink>(std::move(pool));
}

}  // namespace tensorkv::testing
