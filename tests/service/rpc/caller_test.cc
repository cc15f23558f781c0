#include "service/rpc/caller.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(TaskOwnerTest, IsTheIdentityWhateverTheConnection) {
  const Caller caller = {.name = "spiffe://a/trainer"};

  EXPECT_EQ(TaskOwnerOf(caller, "ipv4:10.0.0.7:4711"), caller.name);
  EXPECT_EQ(TaskOwnerOf(caller, "ipv4:10.0.0.8:4712"), caller.name);
  EXPECT_EQ(TaskOwnerOf(caller, "unix:"), caller.name);
}

TEST(TaskOwnerTest, IsTheHostOfWhoProvesNothing) {
  EXPECT_EQ(TaskOwnerOf({}, "ipv4:10.0.0.7:4711"),
            TaskOwnerOf({}, "ipv4:10.0.0.7:4712"));
  EXPECT_NE(TaskOwnerOf({}, "ipv4:10.0.0.7:4711"),
            TaskOwnerOf({}, "ipv4:10.0.0.8:4711"));
  EXPECT_EQ(TaskOwnerOf({}, "ipv6:%5B2001:db8::1%5D:4711"),
            TaskOwnerOf({}, "ipv6:%5B2001:db8::2%5D:4711"));
}

TEST(TaskOwnerTest, IsTheConnectionOnThisHost) {
  EXPECT_NE(TaskOwnerOf({}, "ipv4:127.0.0.1:4711"),
            TaskOwnerOf({}, "ipv4:127.0.0.1:4712"));
  EXPECT_NE(TaskOwnerOf({}, "ipv6:%5B::1%5D:4711"),
            TaskOwnerOf({}, "ipv6:%5B::1%5D:4712"));
}

}  // namespace
}  // namespace tensorkv
