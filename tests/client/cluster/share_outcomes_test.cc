#include "client/cluster/share_outcomes.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::Le;
using ::testing::SizeIs;

TEST(ShareOutcomesTest, DerivedIdsOfDifferentCallsDiffer) {
  const std::string most(kMaxClientIdBytes - 1, 'x');
  std::set<std::string> derived;

  for (const std::string& client_id :
       {std::string("a"), most + "y", most + "z", "y" + most, "z" + most}) {
    for (const char* const marker : {"#1", "#2", "=1", "~12"}) {
      const CallId id = DerivedCallId({client_id, 7}, marker);
      EXPECT_EQ(id.sequence, 7u);
      EXPECT_THAT(id.client_id, SizeIs(Le(kMaxClientIdBytes)));
      EXPECT_TRUE(derived.insert(id.client_id).second)
          << client_id << " " << marker;
      EXPECT_EQ(id.client_id, DerivedCallId({client_id, 7}, marker).client_id);
    }
  }
}

}  // namespace
}  // namespace tensorkv
