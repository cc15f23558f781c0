#include "service/mirror/device_ranges.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/device_link.h"
#include "service/mirror/device_meeting.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/open_fake_link.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::device_ranges_test {
namespace {

using testing::FakeGpu;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;

// Says when a device waits for the others of an id: it has come by then. May
// keep it there whatever becomes of the attempt, as a driver may.
class WatchedLink final : public DeviceLink {
 public:
  explicit WatchedLink(std::unique_ptr<DeviceLink> link)
      : link_(std::move(link)) {}

  void AwaitMember(const std::string& id) {
    MutexLock lock(&mutex_);
    while (!waiting_.contains(id)) changed_.Wait(&mutex_);
  }

  void Hold(bool holds) {
    MutexLock lock(&mutex_);
    holds_ = holds;
    changed_.SignalAll();
  }

  uint32_t version() const override { return link_->version(); }
  absl::StatusOr<std::string> NewGroupId() override {
    return link_->NewGroupId();
  }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(const std::string& id,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    MayWait may_wait) override {
    return link_->Join(id, rank, size, [&] {
      MutexLock lock(&mutex_);
      if (waiting_.insert(id).second) changed_.SignalAll();
      while (holds_) changed_.Wait(&mutex_);
      return may_wait();
    });
  }

 private:
  const std::unique_ptr<DeviceLink> link_;
  Mutex mutex_;
  CondVar changed_;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
};

// One of two servers.
class Server {
 public:
  explicit Server(uint32_t own)
      : gpu_({.ordinal = static_cast<int>(own)}),
        backend_(*CudaBackend::Create(gpu_.Open(), {.quota_bytes = 256 << 20})),
        link_(std::make_unique<WatchedLink>(
            testing::OpenFakeLink(backend_->pool()))) {
    auto group = std::make_shared<MirrorGroup>();
    group->servers = {"s0", "s1"};
    group->own = own;
    ranges_ = std::make_shared<DeviceRanges>(
        DeviceRanges::Environment{.group = group,
                                  .link = link_.get(),
                                  .alarms = &alarms_,
                                  .thread = &thread_});
    memory_ = *backend_->Allocate(2 * kBytes, nullptr);
    other_ = 1 - own;
  }
  ~Server() { ranges_->Stop(); }

  // Sends the first half of its memory, and receives the second.
  Answer<absl::Status> Move(uint64_t attempt,
                            absl::Duration timeout = absl::Minutes(1)) {
    RangesToSend sends(2);
    sends[other_] = {absl::MakeConstSpan(memory_->data(), kBytes)};
    const Answer<absl::Status> answer;
    ranges_->Move(attempt, 0, std::move(sends), timeout,
                  [answer](absl::Status status) { answer.Set(status); });
    return answer;
  }
  absl::Status Begin(uint64_t attempt, const std::string& communicator) {
    RangesToReceive receives(2);
    receives[other_] = {
        absl::MakeSpan(memory_->mutable_data() + kBytes, kBytes)};
    const absl::Status status = ranges_->Begin(
        attempt, communicator, std::make_shared<RefPtr<Buffer>>(memory_));
    ranges_->Expect(attempt, 0, std::move(receives));
    return status;
  }
  void Fill(char byte) {
    const std::string bytes(kBytes, byte);
    ASSERT_OK(backend_->CopyToDevice(std::vector{
        MemoryCopy{bytes.data(), memory_->mutable_data(), kBytes}}));
  }
  std::string Received() {
    std::string bytes(kBytes, 0);
    const Answer<absl::Status> answer;
    backend_->CopyToHost({{memory_->data() + kBytes, bytes.data(), kBytes}},
                         [answer](absl::Status status) { answer.Set(status); });
    EXPECT_OK(answer.Wait());
    return bytes;
  }
  std::string NewId() { return link_->NewGroupId().value(); }
  DeviceRanges& ranges() { return *ranges_; }
  WatchedLink& link() { return *link_; }

 private:
  static constexpr size_t kBytes = 1000;

  FakeGpu gpu_;
  const std::unique_ptr<CudaBackend> backend_;
  const std::unique_ptr<WatchedLink> link_;
  SteadyAlarms alarms_;
  Executor thread_;
  RefPtr<Buffer> memory_;
  uint32_t other_ = 0;
  std::shared_ptr<DeviceRanges> ranges_;
};

class DeviceRangesTest : public ::testing::Test {
 protected:
  // Both servers begin the attempt.
  void Begin(uint64_t attempt, const std::string& communicator) {
    ASSERT_OK(first_.Begin(attempt, communicator));
    ASSERT_OK(second_.Begin(attempt, communicator));
  }
  void ExpectExchange(uint64_t attempt) {
    const auto first = first_.Move(attempt);
    const auto second = second_.Move(attempt);
    EXPECT_OK(first.Wait());
    EXPECT_OK(second.Wait());
  }

  Server first_{0};
  Server second_{1};
};

TEST_F(DeviceRangesTest, AreExchangedAndMeetOnce) {
  const std::string id = first_.NewId();
  for (uint64_t attempt = 1; attempt <= 3; ++attempt) {
    first_.Fill(static_cast<char>('a' + attempt));
    second_.Fill(static_cast<char>('k' + attempt));
    Begin(attempt, id);

    ExpectExchange(attempt);

    EXPECT_EQ(first_.Received().back(), static_cast<char>('k' + attempt));
    EXPECT_EQ(second_.Received()[0], static_cast<char>('a' + attempt));
  }
}

TEST_F(DeviceRangesTest, RefuseWhatIsNoId) {
  for (const size_t size : {0, 127, 129, 5000}) {
    EXPECT_THAT(first_.Begin(1, std::string(size, 'x')),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  ASSERT_OK(first_.Begin(1, std::string(128, 'x')));

  EXPECT_THAT(first_.Move(1).Wait(), Not(StatusIs(absl::StatusCode::kOk)));
}

// The devices part, and meet under another id.
TEST_F(DeviceRangesTest, WaitForOthersUntilTheirDeadline) {
  Begin(1, first_.NewId());

  EXPECT_THAT(first_.Move(1, absl::Milliseconds(20)).Wait(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("servers s0, s1")));

  Begin(2, first_.NewId());
  ExpectExchange(2);
}

// An id that comes when its devices have parted brings nobody together.
TEST_F(DeviceRangesTest, DoNotMeetUnderAnIdAgain) {
  const std::string id = first_.NewId();
  Begin(1, id);
  ExpectExchange(1);
  Begin(2, first_.NewId());
  ExpectExchange(2);

  Begin(3, id);

  EXPECT_THAT(first_.Move(3).Wait(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(DeviceRangesTest, AreGivenUpWhileTheyWait) {
  Begin(1, first_.NewId());
  ExpectExchange(1);
  for (uint64_t attempt = 2; attempt <= 4; ++attempt) {
    const std::string id = first_.NewId();
    Begin(attempt, id);
    const auto waiting = first_.Move(attempt);
    first_.link().AwaitMember(id);

    if (attempt == 2) first_.ranges().EndAttempt(attempt);
    if (attempt == 3) {
      EXPECT_OK(first_.Begin(9, first_.NewId()));
    }
    if (attempt == 4) first_.ranges().Stop();

    EXPECT_THAT(waiting.Wait(), StatusIs(absl::StatusCode::kCancelled));
  }
  EXPECT_THAT(first_.Move(4).Wait(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(first_.Begin(5, first_.NewId()),
              StatusIs(absl::StatusCode::kCancelled));
}

// Of what the device holds up no more is kept than two attempts.
TEST_F(DeviceRangesTest, NoMoreThanOneWaitsBehindADeviceThatStandsStill) {
  const std::string id = first_.NewId();
  Begin(1, id);
  first_.link().Hold(true);
  const auto held = first_.Move(1);
  first_.link().AwaitMember(id);
  Begin(2, first_.NewId());
  const auto queued = first_.Move(2);

  EXPECT_THAT(first_.Begin(3, first_.NewId()),
              StatusIs(absl::StatusCode::kUnavailable));

  first_.link().Hold(false);
  EXPECT_THAT(held.Wait(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_OK(second_.Move(2).Wait());
  EXPECT_OK(queued.Wait());
  Begin(4, first_.NewId());
  ExpectExchange(4);
}

TEST(DeviceMeetingTest, LeavesOutMoreAndMoreAttemptsThatWouldFail) {
  DeviceMeeting meeting;
  for (const int num_left_out : {0, 1, 3, 7}) {
    EXPECT_TRUE(meeting.ChooseForNext({1, 2}));
    meeting.SetId({1, 2}, "id");
    meeting.RecordEnd(/*has_failed=*/true);
    EXPECT_EQ(meeting.IdOf({1, 2}), "");
    for (int i = 0; i < num_left_out; ++i)
      EXPECT_FALSE(meeting.ChooseForNext({1, 2}));
  }
  EXPECT_TRUE(meeting.ChooseForNext({1, 2}));

  meeting.RecordEnd(/*has_failed=*/false);

  EXPECT_TRUE(meeting.ChooseForNext({1, 2}));
  meeting.RecordEnd(/*has_failed=*/true);
  EXPECT_TRUE(meeting.ChooseForNext({1, 2}));
}

TEST(DeviceMeetingTest, LeavesOutNothingOfOtherLinks) {
  DeviceMeeting meeting;
  for (int i = 0; i < 3; ++i) {
    while (!meeting.ChooseForNext({1, 2})) {
    }
    meeting.RecordEnd(/*has_failed=*/true);
  }

  EXPECT_TRUE(meeting.ChooseForNext({1, 3}));

  meeting.RecordEnd(/*has_failed=*/true);
  EXPECT_TRUE(meeting.ChooseForNext({1, 3}));
}

// A server that was started again cannot meet under an id of before.
TEST(DeviceMeetingTest, IdIsOfTheLinksThatWereThere) {
  DeviceMeeting meeting;
  meeting.SetId({1, 2}, "id");

  EXPECT_EQ(meeting.IdOf({1, 2}), "id");
  EXPECT_EQ(meeting.IdOf({1, 3}), "");
}

}  // namespace
}  // namespace tensorkv::device_ranges_test
