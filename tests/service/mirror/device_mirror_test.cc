// A namespace that several servers hold on GPUs, which send each other ranges.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device_link.h"
#include "service/mirror/mirror_counts.h"
#include "tests/contracts/caller.h"
#include "tests/service/mirror/mirrored_servers.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/open_fake_link.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/sanitizers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::device_mirror_test {
namespace {

using testing::Background;
using testing::FakeGpu;
using testing::Fate;
using testing::Full;
using testing::HasReason;
using ::testing::HasSubstr;
using testing::kSpace;
using testing::OpenFakeLink;
using testing::RunWorkers;
using testing::StatusIs;

constexpr MirrorTimes kShortTimes = {.patience = absl::Milliseconds(50),
                                     .attempt = absl::Milliseconds(500)};

// A link with another version of what is below it, or on that GPU.
class OtherLink final : public DeviceLink {
 public:
  OtherLink(std::unique_ptr<DeviceLink> link, uint32_t version, std::string gpu)
      : link_(std::move(link)), version_(version), gpu_(std::move(gpu)) {}

  uint32_t version() const override { return version_; }
  std::string gpu() const override { return gpu_; }
  absl::StatusOr<std::string> NewGroupId() override {
    return link_->NewGroupId();
  }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(const std::string& id,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    MayWait may_wait) override {
    return link_->Join(id, rank, size, may_wait);
  }

 private:
  const std::unique_ptr<DeviceLink> link_;
  const uint32_t version_;
  const std::string gpu_;
};

// Three servers with a GPU each; the first so many reach each other.
class DeviceMirrorTest : public testing::MirroredServersTest {
 protected:
  ~DeviceMirrorTest() override { Close(); }

  void StartOnGpus(size_t num_links = kServers,
                   MirrorTimes times = {.patience = absl::Seconds(30),
                                        .attempt = absl::Seconds(30)}) {
    std::vector<FakeGpu*> gpus;
    for (FakeGpu& gpu : fake_gpus_) gpus.push_back(&gpu);
    OpenGpus(gpus);
    for (size_t i = 0; i < num_links; ++i) {
      links_.push_back(OpenFakeLink(gpus_[i]->pool()));
    }
    for (size_t i = 0; i < num_links; ++i) {
      const uint32_t version = links_[i]->version();
      links_[i] = std::make_unique<OtherLink>(
          std::move(links_[i]), i == other_version_ ? version + 1 : version,
          ids_of_gpus_[i]);
    }
    Start(times);
  }
  // All steps up to the last, which the one server makes too.
  void ExpectBitsOfOneServer(Step last, uint32_t num_servers = kServers) {
    RunWorkers(WorkersOfOne(), 1, last);
    ExpectSame(num_servers);
  }
  const MirrorCounts& CountsOf(uint32_t server) {
    return network_->exchange(server)->counts();
  }
  void ExpectRangesGoByCalls() {
    RunWorkers(Workers(), 1, 1);
    EXPECT_GT(CountsOf(0).attempts_whole, 0u);
    EXPECT_EQ(CountsOf(0).attempts_on_devices, 0u);
    EXPECT_EQ(CountsOf(0).attempts_failed, 0u);
  }
  // Who waits for a round hears that it has failed, and why.
  void ExpectFailed(const std::string& why) {
    for (uint32_t rank = 0; rank < kServers; ++rank) {
      EXPECT_THAT(Worker(rank).Pull("small"),
                  AllOf(HasReason(Reason::kRoundFailed),
                        StatusIs(absl::StatusCode::kAborted, HasSubstr(why))));
    }
  }
  // All workers have the value after so many steps of PushToAll.
  void ExpectSummed(const std::string& key, Step steps) {
    const auto value = 1 + static_cast<double>(kWorkers * steps);
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      EXPECT_THAT(Worker(rank).Pull(key),
                  testing::IsOkAndHolds(
                      testing::HasTensor(testing::IsFilledWith(value))));
    }
  }
  void PushToAll(Step step) {
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_OK(Worker(rank).Push("small", Full({7}, 1), step));
    }
  }

  FakeGpu fake_gpus_[kServers] = {FakeGpu({.ordinal = 0, .shuffle_seed = 1}),
                                  FakeGpu({.ordinal = 1, .shuffle_seed = 2}),
                                  FakeGpu({.ordinal = 2, .shuffle_seed = 3})};
  size_t other_version_ = kServers;
  std::string ids_of_gpus_[kServers] = {"a", "b", "c"};
};

TEST_F(DeviceMirrorTest, HasTheBitsOfOneServer) {
  constexpr Step kSteps = testing::FewerIfSanitized(30);
  StartOnGpus();

  RunWorkers(Workers(), 1, kSteps);

  ExpectBitsOfOneServer(kSteps);
  for (uint32_t i = 0; i < kServers; ++i) {
    EXPECT_GT(CountsOf(i).attempts_whole, 0u);
    EXPECT_EQ(CountsOf(i).attempts_on_devices, CountsOf(i).attempts_whole);
    EXPECT_EQ(CountsOf(i).attempts_failed, 0u);
  }
  network_->Stop();
  for (const auto& server : servers_) {
    const auto described = server->Call(testing::DescribeOf(kSpace), {});
    ASSERT_OK(described);
    EXPECT_EQ(described->status().memory().contributions(), 0u);  // sums, too
  }
}

// Nothing comes to the host while no stream goes there. What is large goes by
// such a stream.
TEST_F(DeviceMirrorTest, ContributionsAndSumsAreNotCopiedToTheHost) {
  constexpr int64_t kSize = 1 << 20;
  StartOnGpus();
  for (uint32_t i = 0; i < kServers; ++i) {
    ASSERT_OK(At(i).SetRule("accumulate", "large"));
    ASSERT_OK(At(i).Init("large", Full({kSize}, 1)));
  }
  for (FakeGpu& gpu : fake_gpus_) gpu.Hold(StreamUse::kToHost);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    ASSERT_OK(Worker(rank).Push("large", Full({kSize}, 1), 1));
  }

  using Pull = std::function<absl::StatusOr<Value>()>;
  std::vector<std::unique_ptr<Background<Pull>>> pulls;
  for (uint32_t i = 0; i < kServers; ++i) {
    pulls.push_back(std::make_unique<Background<Pull>>(
        [this, i] { return Worker(i).Pull("large"); }));
    // Of the value, when it is there.
    fake_gpus_[i].WaitForQueued(StreamUse::kToHost, 1);
    EXPECT_EQ(CountsOf(i).attempts_on_devices, 1u);
  }

  for (FakeGpu& gpu : fake_gpus_) gpu.Release(StreamUse::kToHost);
  for (const auto& pull : pulls) {
    EXPECT_THAT(pull->Result(), testing::IsOkAndHolds(testing::HasTensor(
                                    testing::IsFilledWith(1 + kWorkers))));
  }
}

TEST_F(DeviceMirrorTest, RangesGoByCallsWhereAServerHasNoLink) {
  StartOnGpus(kServers - 1);

  ExpectRangesGoByCalls();
  ExpectBitsOfOneServer(1);
}

TEST_F(DeviceMirrorTest, RangesGoByCallsWhereVersionsDiffer) {
  other_version_ = 1;
  StartOnGpus();

  ExpectRangesGoByCalls();
}

TEST_F(DeviceMirrorTest, RangesGoByCallsWhereTwoServersHaveOneGpu) {
  ids_of_gpus_[2] = ids_of_gpus_[1];
  StartOnGpus();

  ExpectRangesGoByCalls();
}

// It is gone before it has sent anything: those who have begun wait for it, and
// their devices part and meet anew.
TEST_F(DeviceMirrorTest, ServerThatIsKilledInAnAttemptFailsItAndComesBack) {
  StartOnGpus(kServers, kShortTimes);
  Step step = 0;
  // The first time the devices have not met.
  for (const uint32_t gone : {1, 2, 1}) {
    network_->SetFates([gone](uint32_t, uint32_t to, const auto& request) {
      const bool is_run = testing::As<v1::RunSumsRequest>(request);
      return to == gone && is_run ? Fate::kIsLost : Fate::kArrives;
    });
    PushToAll(++step);
    ExpectFailed(absl::StrCat("server s", gone));

    network_->SetFates(nullptr);
    const uint64_t before = CountsOf(0).attempts_on_devices;
    RunWorkers(Workers(), step, step);
    EXPECT_GT(CountsOf(0).attempts_on_devices, before);
  }
  ExpectBitsOfOneServer(step);
}

TEST_F(DeviceMirrorTest, RangesGoByCallsWhereADeviceStandsStill) {
  // Calls have to come within the time that the device is waited for.
  StartOnGpus(kServers,
              {.patience = absl::Seconds(30), .attempt = absl::Seconds(4)});
  fake_gpus_[1].Hold(StreamUse::kLink);

  RunWorkers(Workers(), 1, 1);
  EXPECT_EQ(CountsOf(0).attempts_on_devices, 0u);
  EXPECT_EQ(CountsOf(0).rounds_failed, 0u);

  fake_gpus_[1].Release(StreamUse::kLink);
  RunWorkers(Workers(), 2, 3);
  ExpectBitsOfOneServer(3);
}

// One of them has no room, say: no device has moved.
TEST_F(DeviceMirrorTest, RangesGoByCallsWhereAServerDoesNotBeginOnItsDevice) {
  StartOnGpus();
  std::vector<std::string> communicators;
  bool is_refused = true;
  network_->SetFates([&](uint32_t, uint32_t to, const auto& request) {
    const auto* const begin = testing::As<v1::BeginSumsRequest>(request);
    const std::string id = begin == nullptr ? "" : begin->communicator();
    if (to != 1 || id.empty()) return Fate::kArrives;
    communicators.push_back(id);
    return std::exchange(is_refused, false) ? Fate::kIsLost : Fate::kArrives;
  });

  PushToAll(1);
  ExpectSummed("small", 1);
  EXPECT_EQ(CountsOf(0).attempts_on_devices, 0u);
  PushToAll(2);
  ExpectSummed("small", 2);

  EXPECT_EQ(CountsOf(0).attempts_on_devices, 1u);
  EXPECT_EQ(CountsOf(0).rounds_failed, 0u);
  network_->SetFates(nullptr);
  ASSERT_EQ(communicators.size(), 2u);
  EXPECT_EQ(communicators[0], communicators[1]);
}

TEST_F(DeviceMirrorTest, ServersThatAreLeftMeetAnew) {
  StartOnGpus();
  RunWorkers(Workers(), 1, 2);

  network_->Connect(kServers - 1);
  Choose(kServers - 1);
  RunWorkers(Workers(), 3, 4);

  ExpectBitsOfOneServer(4, kServers - 1);
  EXPECT_EQ(CountsOf(0).attempts_on_devices, CountsOf(0).attempts_whole);
}

}  // namespace
}  // namespace tensorkv::device_mirror_test
