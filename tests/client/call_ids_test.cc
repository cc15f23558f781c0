#include "client/call_ids.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(CallIdsTest, SequencesCountFromOne) {
  CallIds ids;

  const CallId first = ids.Next();
  const CallId second = ids.Next();

  EXPECT_EQ(first.sequence, 1);
  EXPECT_EQ(second.sequence, 2);
  EXPECT_EQ(first.client_id, second.client_id);
}

TEST(CallIdsTest, ClientsHaveIdsOfTheirOwn) {
  const std::string id = CallIds().Next().client_id;

  EXPECT_EQ(id.size(), 16);
  EXPECT_NE(CallIds().Next().client_id, id);
}

}  // namespace
}  // namespace tensorkv
