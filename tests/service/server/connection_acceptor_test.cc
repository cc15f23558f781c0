#include "service/server/connection_acceptor.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

class ConnectionAcceptorTest : public ::testing::Test {
 protected:
  ~ConnectionAcceptorTest() override { acceptor_.Stop(); }

  FileDescriptor Connect() const {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(acceptor_.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FileDescriptor fd(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    return fd;
  }
  // Returns when so many connections have been taken.
  void AwaitTaken(size_t count) {
    MutexLock lock(&mutex_);
    while (taken_.size() < count) changed_.Wait(&mutex_);
  }
  void CloseFirst() {
    MutexLock lock(&mutex_);
    taken_[0].Reset();
  }
  // Returns when the other end has closed the connection.
  static void AwaitEnd(const FileDescriptor& fd) {
    char byte = 0;
    EXPECT_LE(recv(fd.get(), &byte, 1, 0), 0);
  }
  void Take(int fd) {
    MutexLock lock(&mutex_);
    taken_.emplace_back(fd);
    changed_.Signal();
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<FileDescriptor> taken_;
  std::vector<std::string> refusals_;
  ConnectionAcceptor acceptor_{
      ListeningSockets::Open("127.0.0.1:0").value(),
      {.max_connections = 2,
       .take = [this](int, int fd) { Take(fd); },
       .refused =
           [this](absl::string_view why) { refusals_.emplace_back(why); }}};
};

TEST_F(ConnectionAcceptorTest, CountsWhatIsOpen) {
  const FileDescriptor one = Connect();
  const FileDescriptor two = Connect();
  AwaitTaken(2);
  EXPECT_EQ(acceptor_.num_open(), 2u);

  CloseFirst();

  EXPECT_EQ(acceptor_.num_open(), 1u);
  EXPECT_EQ(acceptor_.num_accepted(), 2u);
}

TEST_F(ConnectionAcceptorTest, RefusesBeyondTheLimitUntilThereIsRoom) {
  const FileDescriptor one = Connect();
  const FileDescriptor two = Connect();
  AwaitTaken(2);

  AwaitEnd(Connect());
  CloseFirst();
  const FileDescriptor four = Connect();

  AwaitTaken(3);
  EXPECT_EQ(acceptor_.num_refused(), 1u);
  acceptor_.Stop();
  EXPECT_THAT(refusals_, ElementsAre("too many connections"));
}

TEST_F(ConnectionAcceptorTest, GoesOnWhenDescriptorsComeBack) {
  const FileDescriptor waiting = Connect();
  AwaitTaken(1);
  const FileDescriptor late(socket(AF_INET, SOCK_STREAM, 0));
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = before;
  low.rlim_cur = 64;
  setrlimit(RLIMIT_NOFILE, &low);
  std::vector<FileDescriptor> all;
  while (all.empty() || all.back().is_open()) all.emplace_back(dup(0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(acceptor_.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(late.get(), reinterpret_cast<sockaddr*>(&address),
                    sizeof(address)),
            0);

  AwaitEnd(late);
  EXPECT_EQ(acceptor_.num_refused(), 1u);
  all.clear();
  setrlimit(RLIMIT_NOFILE, &before);
  const FileDescriptor next = Connect();

  AwaitTaken(2);
}

TEST_F(ConnectionAcceptorTest, AnswersProbesOnceItsThreadIsFree) {
  Notification answered;
  FileDescriptor one;
  {
    MutexLock lock(&mutex_);  // Take waits for it
    one = Connect();
    while (acceptor_.num_accepted() == 0) std::this_thread::yield();

    acceptor_.Probe([&] { answered.Notify(); });

    EXPECT_FALSE(answered.HasBeenNotified());
  }
  acceptor_.Stop();

  EXPECT_TRUE(answered.HasBeenNotified());
}

}  // namespace
}  // namespace tensorkv
