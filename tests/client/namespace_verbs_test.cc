#include "client/namespace_verbs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_client.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;

using NamespaceVerbsTest = testing::ScriptedClientTest;

TEST_F(NamespaceVerbsTest, DeleteAndStatPassTheirFlags) {
  script_.reply<DeleteRequest>().set_num_deleted(2);
  script_.reply<StatRequest>().add_keys();
  Client client = MakeClient({.name_space = "n"});

  EXPECT_THAT(client.Delete({"a", "b"}, /*allow_missing=*/true),
              IsOkAndHolds(2));
  ASSERT_OK(client.Stat({"a"}, /*compute_digests=*/true));

  EXPECT_THAT(script_.last<DeleteRequest>().keys(), ElementsAre("a", "b"));
  EXPECT_TRUE(script_.last<DeleteRequest>().allow_missing());
  EXPECT_EQ(script_.last<StatRequest>().namespace_(), "n");
  EXPECT_TRUE(script_.last<StatRequest>().compute_digests());
}

TEST_F(NamespaceVerbsTest, DeleteEmptiesANamespaceWithoutRoomToRememberIt) {
  script_.statuses = {absl::ResourceExhaustedError("full")};
  script_.reply<DeleteRequest>().set_num_deleted(1);
  Client client = MakeClient({.name_space = "n"});

  EXPECT_THAT(client.Delete({"a"}), IsOkAndHolds(1));

  EXPECT_THAT(script_.verbs, ElementsAre("Delete", "Delete"));
  EXPECT_LT(script_.timeouts[1], script_.timeouts[0]);
  EXPECT_FALSE(script_.last<DeleteRequest>().has_call_id());
  EXPECT_TRUE(script_.last<DeleteRequest>().allow_missing());
  EXPECT_THAT(script_.last<DeleteRequest>().keys(), ElementsAre("a"));
}

TEST_F(NamespaceVerbsTest, AllPagesAreWithinOneTimeout) {
  script_.statuses = {absl::OkStatus(), absl::OkStatus(),
                      absl::DeadlineExceededError("late")};
  script_.reply<ListRequest>() = testing::PageOfKeys({"a"}, "next");
  script_.during_call = [&] {
    *script_.reply<ListRequest>().mutable_next_page_token() += "+";
  };
  Client client = MakeClient({.name_space = "n"});

  EXPECT_THAT(client.ListAll("prefix"),
              StatusIs(absl::StatusCode::kDeadlineExceeded));

  EXPECT_THAT(script_.verbs, ElementsAre("List", "List", "List"));
  EXPECT_GT(script_.timeouts[1], script_.timeouts[2]);
  EXPECT_EQ(script_.last<ListRequest>().prefix(), "prefix");
  EXPECT_EQ(script_.last<ListRequest>().page_token(), "next+");
}

TEST_F(NamespaceVerbsTest, ListsWhosePagesDoNotRiseAreErrors) {
  script_.reply<ListRequest>().set_next_page_token("next");
  script_.reply<ListNamespacesRequest>().set_next_page_token("next");
  script_.reply<ListCheckpointsRequest>().set_next_page_token("next");
  Client client = MakeClient({.name_space = "n"});

  EXPECT_THAT(client.ListAll(), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(client.ListNamespaces(), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(client.ListCheckpoints(), StatusIs(absl::StatusCode::kInternal));

  EXPECT_THAT(script_.verbs,
              ElementsAre("List", "List", "ListNamespaces", "ListNamespaces",
                          "ListCheckpoints", "ListCheckpoints"));
}

TEST_F(NamespaceVerbsTest, NewestStepsAreOfAsManyPagesAsItTakes) {
  DescribeStepsReply& page = script_.reply<DescribeStepsRequest>();
  page.add_steps()->set_step(9);
  page.add_steps()->set_step(8);
  page.set_next_page_token("next");
  script_.during_call = [&] { *page.mutable_next_page_token() += "+"; };
  Client client = MakeClient({.name_space = "n"});

  EXPECT_EQ(client.DescribeNewestSteps(5, 2, 9)->size(), 6u);

  EXPECT_THAT(script_.verbs,
              ElementsAre("DescribeSteps", "DescribeSteps", "DescribeSteps"));
  const auto& last = script_.last<DescribeStepsRequest>();
  EXPECT_EQ(last.namespace_(), "n");
  EXPECT_EQ(last.first_step(), 2u);
  EXPECT_EQ(last.last_step(), 9u);
  EXPECT_EQ(last.page_size(), 1u);
  EXPECT_EQ(last.page_token(), "next+");
}

TEST_F(NamespaceVerbsTest, RulesAreThoseOfTheNamespace) {
  Client client = MakeClient({.name_space = "n"});

  ASSERT_OK(client.SetRule({.name = "sgd"}, "*.bias"));
  ASSERT_OK(client.SetHyperparameters({{"momentum", 0.5}}, "*.bias"));

  EXPECT_EQ(script_.last<SetRuleRequest>().namespace_(), "n");
  EXPECT_EQ(script_.last<SetRuleRequest>().key_pattern(), "*.bias");
  EXPECT_EQ(script_.last<SetRuleRequest>().rule().name(), "sgd");
  EXPECT_EQ(script_.last<SetHyperparametersRequest>().hyperparameters().at(
                "momentum"),
            0.5);
}

TEST_F(NamespaceVerbsTest, MultipliersAreApartFromRules) {
  Client client = MakeClient({.name_space = "n"});

  ASSERT_OK(client.SetMultipliers({.learning_rate = 2}, "*.bias"));
  ASSERT_OK(client.UnsetMultipliers("*.bias"));
  ASSERT_OK(client.UnsetRule("*.weight"));

  EXPECT_EQ(script_.last<SetMultipliersRequest>().namespace_(), "n");
  EXPECT_EQ(script_.last<SetMultipliersRequest>().key_pattern(), "*.bias");
  EXPECT_EQ(script_.last<SetMultipliersRequest>().multipliers().learning_rate(),
            2);
  EXPECT_EQ(script_.last<UnsetMultipliersRequest>().key_pattern(), "*.bias");
  EXPECT_EQ(script_.last<UnsetRuleRequest>().key_pattern(), "*.weight");
}

}  // namespace
}  // namespace tensorkv
