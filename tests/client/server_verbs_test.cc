#include "client/server_verbs.h"

#include "gtest/gtest.h"
#include "tests/client/scripted_client.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ServerVerbsTest = testing::ScriptedClientTest;

TEST_F(ServerVerbsTest, NamespaceVerbsTakeTheNameGiven) {
  Client client = MakeClient({.name_space = "n"});

  ASSERT_OK(client.CreateNamespace("new", {.num_workers = 4}));
  EXPECT_EQ(script_.last<CreateNamespaceRequest>().name_space, "new");
  EXPECT_EQ(script_.last<CreateNamespaceRequest>().config.num_workers, 4);

  ASSERT_OK(client.DescribeNamespace("other"));
  EXPECT_EQ(script_.last<DescribeNamespaceRequest>().name_space, "other");

  ASSERT_OK(client.DeleteNamespace("old"));
  EXPECT_EQ(script_.last<DeleteNamespaceRequest>().name_space, "old");
}

}  // namespace
}  // namespace tensorkv
