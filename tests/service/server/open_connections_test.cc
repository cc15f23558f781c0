#include "service/server/open_connections.h"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

#include "base/file_descriptor.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

FileDescriptor OpenPipeEnd() {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  return FileDescriptor(ends[1]);
}

// However many there are: a flood of refusals must not keep the listener.
TEST(OpenConnectionsTest, RefusalLooksAtFew) {
  constexpr int kNumSockets = 400;
  constexpr int kNumRefusals = 100;
  OpenConnections open;
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < kNumSockets; ++i) {
    sockets.push_back(OpenPipeEnd());
    open.Add(sockets.back().get());
  }
  const FileDescriptor refused = OpenPipeEnd();
  const uint64_t looks_before = open.num_looks();

  for (int i = 0; i < kNumRefusals; ++i) {
    EXPECT_FALSE(open.HasHeadroom(refused.get(), kNumSockets));
  }

  EXPECT_LE(open.num_looks() - looks_before, kNumRefusals * 64u);
  EXPECT_EQ(open.Count(), static_cast<uint64_t>(kNumSockets));
}

TEST(OpenConnectionsTest, WhoeverGetsTheNumberOfAnotherHasItsPlace) {
  constexpr int kNumSockets = 400;
  OpenConnections open;
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < kNumSockets; ++i) {
    sockets.push_back(OpenPipeEnd());
    open.Add(sockets.back().get());
  }
  for (const size_t ended : {size_t{399}, size_t{17}, size_t{0}}) {
    const int number = sockets[ended].get();
    const FileDescriptor next = OpenPipeEnd();
    sockets[ended].Reset();
    ASSERT_EQ(dup2(next.get(), number), number);
    sockets[ended] = FileDescriptor(number);

    EXPECT_TRUE(open.HasHeadroom(number, kNumSockets));
    open.Add(number);
    EXPECT_FALSE(open.HasHeadroom(next.get(), kNumSockets));
  }
}

TEST(OpenConnectionsTest, FindsOutInTheEndThatOthersAreGone) {
  constexpr int kNumSockets = 400;
  OpenConnections open;
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < kNumSockets; ++i) {
    sockets.push_back(OpenPipeEnd());
    open.Add(sockets.back().get());
  }
  const FileDescriptor next = OpenPipeEnd();
  sockets[321].Reset();

  int num_refusals = 0;
  while (!open.HasHeadroom(next.get(), kNumSockets)) ++num_refusals;

  EXPECT_LE(num_refusals, kNumSockets / 64 + 1);
  EXPECT_EQ(open.Count(), kNumSockets - 1u);
}

TEST(OpenConnectionsTest, ForgetsAsManyAsItLearns) {
  OpenConnections open;
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < 64; ++i) sockets.push_back(OpenPipeEnd());
  for (const FileDescriptor& socket : sockets) open.Add(socket.get());
  const FileDescriptor last = OpenPipeEnd();

  sockets.clear();

  EXPECT_TRUE(open.HasHeadroom(last.get(), 64));
  open.Add(last.get());
  EXPECT_EQ(open.Count(), 1u);
}

}  // namespace
}  // namespace tensorkv
