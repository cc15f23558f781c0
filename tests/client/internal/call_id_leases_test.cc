#include "client/internal/call_id_leases.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(CallIdLeasesTest, CallsOneAfterAnotherShareAClientId) {
  CallIdLeases lanes;
  const CallId first = lanes.Acquire().id();
  const CallId second = lanes.Acquire().id();

  EXPECT_EQ(second.client_id, first.client_id);
  EXPECT_EQ(first.sequence, 1u);
  EXPECT_EQ(second.sequence, 2u);
}

TEST(CallIdLeasesTest, CallsAtTheSameTimeHaveClientIdsOfTheirOwn) {
  CallIdLeases lanes;
  const CallIdLeases::Lease slow = lanes.Acquire();
  const CallId other = lanes.Acquire().id();

  EXPECT_NE(other.client_id, slow.id().client_id);
  EXPECT_EQ(lanes.Acquire().id().sequence, 2u);
}

TEST(CallIdLeasesTest, ClientsHaveNoClientIdInCommon) {
  CallIdLeases one;
  CallIdLeases other;

  EXPECT_NE(one.Acquire().id().client_id, other.Acquire().id().client_id);
}

// The client id of the next call in a process that is forked from this one.
std::string ClientIdOfAFork(CallIdLeases& lanes) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string id = lanes.Acquire().id().client_id;
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
  CallIdLeases lanes;
  const std::string id = lanes.Acquire().id().client_id;

  const std::string first = ClientIdOfAFork(lanes);
  const std::string second = ClientIdOfAFork(lanes);

  EXPECT_EQ(first.size(), id.size());
  EXPECT_NE(first, id);
  EXPECT_NE(second, id);
  EXPECT_NE(first, second);
}

TEST(CallIdLeasesTest, ClientIdsFitTheContract) {
  CallIdLeases lanes;

  EXPECT_LE(lanes.Acquire().id().client_id.size(), 64u);
}

}  // namespace
}  // namespace tensorkv
