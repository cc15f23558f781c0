#include "client/internal/calls/call_id_leases.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::FieldsAre;
using ::testing::Ne;

std::unique_ptr<CallIdLeases::Lease> Acquire(CallIdLeases& leases) {
  return std::unique_ptr<CallIdLeases::Lease>(
      new CallIdLeases::Lease(leases.Acquire()));
}

TEST(CallIdLeasesTest, CallsOneAfterAnotherLackNoAnswerButTheirOwn) {
  CallIdLeases leases;
  const std::string client_id = leases.Acquire().id().client_id;

  EXPECT_THAT(leases.Acquire().id(), FieldsAre(client_id, 2, 2));
  EXPECT_THAT(leases.Acquire().id(), FieldsAre(client_id, 3, 3));
}

TEST(CallIdLeasesTest, CallsAtTheSameTimeLackTheAnswersOfThoseUnderWay) {
  CallIdLeases leases;
  const auto first = Acquire(leases);
  auto second = Acquire(leases);
  auto third = Acquire(leases);
  const std::string client_id = first->id().client_id;

  EXPECT_THAT(third->id(), FieldsAre(client_id, 3, 1));
  second.reset();
  EXPECT_THAT(leases.Acquire().id(), FieldsAre(client_id, 4, 1));
}

TEST(CallIdLeasesTest, LowestUnderWayRisesPastAllThatHaveEnded) {
  CallIdLeases leases;
  auto first = Acquire(leases);
  auto second = Acquire(leases);
  const auto third = Acquire(leases);

  second.reset();
  first.reset();

  EXPECT_EQ(leases.Acquire().id().answered_below, 3u);
}

// A slow call may wait for what the others bring.
TEST(CallIdLeasesTest, CallThatManyOvertakeHoldsNoneOfThemUp) {
  CallIdLeases leases;
  auto slow = Acquire(leases);
  const std::string client_id = slow->id().client_id;
  CallId last;
  for (uint64_t i = 1; i < kMaxCallsUnderWay; ++i) last = leases.Acquire().id();
  EXPECT_THAT(last, FieldsAre(client_id, kMaxCallsUnderWay, 1));

  EXPECT_THAT(leases.Acquire().id(), FieldsAre(Ne(client_id), 1, 1));
  EXPECT_THAT(leases.Acquire().id(), FieldsAre(Ne(client_id), 2, 2));

  slow.reset();
  EXPECT_THAT(leases.Acquire().id(), FieldsAre(client_id, kMaxCallsUnderWay + 1,
                                               kMaxCallsUnderWay + 1));
}

TEST(CallIdLeasesTest, ManyCallsAtTheSameTimeKeepToTheBound) {
  CallIdLeases leases;
  std::vector<std::unique_ptr<CallIdLeases::Lease>> calls;
  for (int i = 0; i < 1000; ++i) {
    calls.push_back(Acquire(leases));
    const CallId id = calls.back()->id();
    EXPECT_LT(id.sequence - id.answered_below, kMaxCallsUnderWay);
  }
}

TEST(CallIdLeasesTest, ClientsHaveNoClientIdInCommon) {
  CallIdLeases one;
  CallIdLeases other;

  EXPECT_NE(one.Acquire().id().client_id, other.Acquire().id().client_id);
}

// The client id of the next call in a process that is forked from this one.
std::string ClientIdOfAFork(CallIdLeases& leases) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string id = leases.Acquire().id().client_id;
    _exit(write(pipe_ends[1], id.data(), id.size()) < 0 ? 1 : 0);
  }
  close(pipe_ends[1]);
  waitpid(child, nullptr, 0);
  std::string id(64, '\0');
  id.resize(std::max<ssize_t>(read(pipe_ends[0], id.data(), id.size()), 0));
  close(pipe_ends[0]);
  return id;
}

TEST(CallIdLeasesTest, ForksHaveNoClientIdInCommon) {
  CallIdLeases leases;
  const std::string id = leases.Acquire().id().client_id;

  const std::string first = ClientIdOfAFork(leases);
  const std::string second = ClientIdOfAFork(leases);

  EXPECT_EQ(first.size(), id.size());
  EXPECT_NE(first, id);
  EXPECT_NE(second, id);
  EXPECT_NE(first, second);
}

TEST(CallIdLeasesTest, ClientIdsFitTheContract) {
  CallIdLeases leases;

  EXPECT_LE(leases.Acquire().id().client_id.size(), 64u);
}

}  // namespace
}  // namespace tensorkv
