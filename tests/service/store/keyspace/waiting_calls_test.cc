// What waiting costs: memory, no threads.

#include <malloc.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/num_threads.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::NumThreads;
using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

constexpr size_t kNumCalls = 10000;

TEST(WaitingCallsTest, TenThousandCostNoThreadAndEndAtTheirDeadlines) {
  ScriptedBackend backend;
  FakeAlarms alarms;
  MemoryTensorStore store({}, &backend, &alarms);
  InitRequest init;
  init.entries.push_back({"w", *Tensor::Filled(DType::kF32, {4}, 0)});
  ASSERT_OK(InitNow(store, std::move(init)));
  std::vector<absl::Status> ends(kNumCalls);
  size_t num_ended = 0;
  const int threads_before = NumThreads();
  const size_t bytes_before = mallinfo2().uordblks;

  for (size_t i = 0; i < kNumCalls; ++i) {
    PullRequest pull;
    pull.entries.push_back({"w", /*min_version=*/2});
    store.Pull(std::move(pull), {.timeout = absl::Seconds(30)},
               [&, i](absl::StatusOr<PullReply> reply) {
                 ends[i] = reply.status();
                 ++num_ended;
               });
  }

  std::cout << "bytes per waiting call: "
            << (mallinfo2().uordblks - bytes_before) / kNumCalls << "\n";
  EXPECT_EQ(NumThreads(), threads_before);
  EXPECT_EQ(testing::Described(store).calls_waiting(), kNumCalls);
  alarms.Advance(absl::Seconds(29));
  EXPECT_EQ(num_ended, 0u);
  alarms.Advance(absl::Seconds(1));
  EXPECT_EQ(num_ended, kNumCalls);
  EXPECT_THAT(
      ends, ::testing::Each(StatusIs(absl::StatusCode::kDeadlineExceeded,
                                     HasSubstr("expected version 2, got 1"))));
  EXPECT_EQ(testing::Described(store).calls_waiting(), 0u);
  EXPECT_EQ(alarms.num_pending(), 0u);
}

TEST(WaitingCallsTest, SlowCallRecordsWhatItWaitsForAndGoesOn) {
  ScriptedBackend backend;
  FakeAlarms alarms;
  MemoryTensorStore store({}, &backend, &alarms);
  InitRequest init;
  init.entries.push_back({"w", *Tensor::Filled(DType::kF32, {4}, 0)});
  ASSERT_OK(InitNow(store, std::move(init)));
  CallContext context = {.timeout = absl::Seconds(30)};
  const auto record = std::make_shared<CallRecord>(absl::Seconds(1));
  context.caller.record = record;
  PullRequest pull;
  pull.entries.push_back({"w", /*min_version=*/2});
  absl::Status end;

  store.Pull(std::move(pull), std::move(context),
             [&end](absl::StatusOr<PullReply> reply) { end = reply.status(); });

  alarms.Advance(absl::Milliseconds(999));
  EXPECT_EQ(record->fields().awaited, "");
  alarms.Advance(absl::Milliseconds(1));
  EXPECT_THAT(record->fields().awaited, HasSubstr("expected version 2, got 1"));
  EXPECT_OK(end);
  alarms.Advance(absl::Seconds(29));
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(alarms.num_pending(), 0u);
}

}  // namespace
}  // namespace tensorkv
