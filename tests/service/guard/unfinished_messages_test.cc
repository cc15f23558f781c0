#include "service/guard/unfinished_messages.h"

#include <sys/socket.h>

#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMaxUnfinishedBytes = 100;

// A connection of `address`, and its other end.
class UnfinishedPeer {
 public:
  UnfinishedPeer(UnfinishedMessages* messages, const std::string& address)
      : messages_(messages) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ours_.Reset(fds[0]);
    theirs_.Reset(fds[1]);
    connection_.reset(new UnfinishedMessages::Connection{
        ours_.get(), InodeOf(ours_.get()), address});
    messages_->Add(connection_.get());
  }
  ~UnfinishedPeer() { messages_->Remove(connection_.get()); }

  bool Has(uint64_t bytes) {
    return messages_->SetBytes(connection_.get(), bytes);
  }
  void Close() { ours_.Reset(); }
  bool is_cut() const { return connection_->is_cut; }
  bool SeesTheEnd() {
    char byte;
    return recv(theirs_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  UnfinishedMessages* const messages_;
  FileDescriptor ours_;
  FileDescriptor theirs_;
  std::unique_ptr<UnfinishedMessages::Connection> connection_;
};

TEST(UnfinishedMessagesTest, OfTheGreediestAddressTheGreediestIsCut) {
  UnfinishedMessages messages(kMaxUnfinishedBytes);
  UnfinishedPeer large(&messages, "a");
  UnfinishedPeer small(&messages, "b");
  UnfinishedPeer middle(&messages, "b");
  EXPECT_FALSE(large.Has(40));
  EXPECT_FALSE(small.Has(28));

  EXPECT_TRUE(middle.Has(33));
  EXPECT_THAT(messages.CutGreediest(), ElementsAre("b"));

  EXPECT_TRUE(middle.is_cut());
  EXPECT_TRUE(middle.SeesTheEnd());
  EXPECT_FALSE(large.is_cut() || small.is_cut() || small.SeesTheEnd());
  EXPECT_EQ(messages.bytes(), 68u);
}

TEST(UnfinishedMessagesTest, ClosedConnectionsCountNoLonger) {
  UnfinishedMessages messages(kMaxUnfinishedBytes);
  UnfinishedPeer closed(&messages, "a");
  UnfinishedPeer open(&messages, "b");
  EXPECT_FALSE(closed.Has(90));
  closed.Close();

  EXPECT_TRUE(open.Has(100));
  EXPECT_THAT(messages.CutGreediest(), IsEmpty());

  EXPECT_FALSE(open.is_cut());
  EXPECT_EQ(messages.bytes(), 100u);
}

TEST(UnfinishedMessagesTest, WhatEndsMakesRoom) {
  UnfinishedMessages messages(kMaxUnfinishedBytes);
  {
    UnfinishedPeer gone(&messages, "a");
    EXPECT_FALSE(gone.Has(100));
  }
  UnfinishedPeer peer(&messages, "a");

  EXPECT_FALSE(peer.Has(100));
  EXPECT_FALSE(peer.Has(0));
  EXPECT_EQ(messages.bytes(), 0u);
}

}  // namespace
}  // namespace tensorkv
