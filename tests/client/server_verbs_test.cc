#include "client/server_verbs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_client.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

using ServerVerbsTest = testing::ScriptedClientTest;

TEST_F(ServerVerbsTest, NamespaceVerbsTakeTheNameGiven) {
  Client client = MakeClient({.name_space = "n"});

  ASSERT_OK(client.CreateNamespace("new", {.num_workers = 4}));
  EXPECT_EQ(script_.last<CreateNamespaceRequest>().namespace_(), "new");
  EXPECT_EQ(script_.last<CreateNamespaceRequest>().config().num_workers(), 4);

  ASSERT_OK(client.DescribeNamespace("other"));
  EXPECT_EQ(script_.last<DescribeNamespaceRequest>().namespace_(), "other");

  ASSERT_OK(client.DeleteNamespace("old"));
  EXPECT_EQ(script_.last<DeleteNamespaceRequest>().namespace_(), "old");

  ASSERT_OK(client.UpdateNamespace("it", {.quorum = 2}, {"quorum"}, 7));
  EXPECT_EQ(script_.last<UpdateNamespaceRequest>().namespace_(), "it");
  EXPECT_EQ(script_.last<UpdateNamespaceRequest>().namespace_uid(), 7u);
  EXPECT_EQ(script_.last<UpdateNamespaceRequest>().config().quorum(), 2u);
}

TEST_F(ServerVerbsTest, DeleteMeansTheNamespaceThatIsThereAtItsBegin) {
  script_.reply<DescribeNamespaceRequest>().mutable_status()->set_uid(7);
  Client client = MakeClient({});

  ASSERT_OK(client.DeleteNamespace("n"));
  EXPECT_EQ(script_.last<DeleteNamespaceRequest>().namespace_uid(), 7u);

  ASSERT_OK(client.DeleteNamespace("n", /*uid=*/8));
  EXPECT_EQ(script_.last<DeleteNamespaceRequest>().namespace_uid(), 8u);
  EXPECT_THAT(script_.verbs, ElementsAre("DescribeNamespace", "DeleteNamespace",
                                         "DeleteNamespace"));
}

// What frees memory must not need it.
TEST_F(ServerVerbsTest, DeleteThatIsNotRememberedIsMadeWithoutAName) {
  script_.statuses = {absl::ResourceExhaustedError("no memory")};
  Client client = MakeClient({});

  ASSERT_OK(client.DeleteNamespace("n", /*uid=*/8));

  EXPECT_THAT(script_.verbs, ElementsAre("DeleteNamespace", "DeleteNamespace"));
  EXPECT_FALSE(script_.last<DeleteNamespaceRequest>().has_call_id());
}

TEST_F(ServerVerbsTest, LargerBudgetNeedsNoMemoryOfTheOneThatIsFull) {
  Client client = MakeClient({});
  ASSERT_OK(client.UpdateNamespace("n", {.budget_bytes = 8}, {"budget_bytes"}));
  EXPECT_TRUE(script_.last<UpdateNamespaceRequest>().has_call_id());
  script_.statuses = {absl::ResourceExhaustedError("no memory")};

  ASSERT_OK(client.UpdateNamespace("n", {.budget_bytes = 9}, {"budget_bytes"}));

  EXPECT_FALSE(script_.last<UpdateNamespaceRequest>().has_call_id());
}

}  // namespace
}  // namespace tensorkv
