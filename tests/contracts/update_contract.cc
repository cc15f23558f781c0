// UpdateNamespace: what may change of a namespace while it is used, and when
// each change counts.

#include <cmath>
#include <string>
#include <vector>

#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace update_contract {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

NamespaceConfig Sync(uint32_t num_workers, uint32_t quorum = 0) {
  return {.mode = Mode::kSync, .num_workers = num_workers, .quorum = quorum};
}

absl::Status SetOnWorkerLoss(const Caller& caller, OnWorkerLoss loss) {
  return caller.Update({.on_worker_loss = loss}, {"on_worker_loss"}).status();
}

absl::Status SetQuorum(const Caller& caller, uint32_t quorum) {
  return caller.Update({.quorum = quorum}, {"quorum"}).status();
}

TEST_P(NamespaceContractTest, UpdateChangesTheFieldsOfItsMaskAlone) {
  if (is_cluster()) GTEST_SKIP() << "servers of a cluster refuse it";
  const Caller n = NewNamespace("n", Sync(3));
  NamespaceConfig config = ConfigOf(*n.Describe());
  config.budget_bytes = 1 << 20;
  config.quorum = 2;
  config.quorum_grace = absl::Seconds(3);

  const auto updated = n.Update({.budget_bytes = 1 << 20,
                                 .staleness = 5,
                                 .quorum = 2,
                                 .quorum_grace = absl::Seconds(3),
                                 .max_open_rounds = 7},
                                {"quorum", "budget_bytes", "quorum_grace"});

  ASSERT_OK(updated);
  EXPECT_TRUE(*updated == config);
  EXPECT_TRUE(ConfigOf(*n.Describe()) == config);
}

TEST_P(NamespaceContractTest, UpdateOfWhatCannotChangeIsRefusedWithItsNames) {
  const Caller n = NewNamespace("n", Sync(3));
  const auto refused = [&](const std::vector<std::string>& mask) {
    return n.Update({.num_workers = 2, .quorum = 1}, mask).status();
  };

  for (const std::string path :
       {"mode", "num_workers", "rule", "mirrored", "quorums", "*", "",
        "gradient", "gradient_guard."}) {
    EXPECT_THAT(refused({"quorum", path}),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("update_mask: expected"),
                               HasSubstr("got \"" + path + "\""))));
  }
  EXPECT_THAT(refused({}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("got none")));
  EXPECT_EQ(n.Describe()->config().quorum(), 0u);
}

auto IsInvalid(const std::string& what) {
  return StatusIs(StatusCode::kInvalidArgument, HasSubstr(what));
}

TEST_P(NamespaceContractTest, UpdateOfRoundsIsCheckedAsACreationIs) {
  if (is_cluster()) GTEST_SKIP() << "servers of a cluster refuse it";
  const Caller sync = NewNamespace("s", Sync(3));
  const Caller async = NewNamespace("a", {});

  EXPECT_THAT(SetQuorum(sync, 4), IsInvalid("quorum: expected at most 3"));
  EXPECT_THAT(SetQuorum(async, 1), IsInvalid("quorum: expected none"));
  EXPECT_THAT(SetOnWorkerLoss(async, OnWorkerLoss::kContinue),
              IsInvalid("on_worker_loss"));
}

TEST_P(NamespaceContractTest, UpdateIsCheckedAsACreationIs) {
  const Caller sync = NewNamespace("s", Sync(3));

  EXPECT_THAT(
      sync.Update({.gradient_guard = {.on_large_norm = OnLargeNorm::kRefuse}},
                  {"gradient_guard.on_large_norm"}),
      IsInvalid("on_large_norm"));
  EXPECT_THAT(sync.Update({.budget_bytes = 1}, {"budget_bytes"}),
              IsInvalid("a budget of at least"));
  EXPECT_THAT(
      sync.Update({.budget_bytes = uint64_t{1} << 60}, {"budget_bytes"}),
      StatusIs(StatusCode::kResourceExhausted));
}

TEST_P(NamespaceContractTest, UpdateOfAnotherLifeIsRefused) {
  const Caller n = NewNamespace("n", Sync(3));
  const auto update = [&](const std::string& name, uint64_t uid) {
    return connection()
        .Call(UpdateOf(name, {.budget_bytes = 1 << 20}, {"budget_bytes"}, uid),
              {})
        .status();
  };
  const uint64_t uid = n.Describe()->uid();
  EXPECT_OK(update("n", uid));
  ASSERT_OK(n.Drop());
  ASSERT_OK(n.Create(Sync(3)));

  EXPECT_THAT(update("n", uid), HasReason(Reason::kNamespaceReplaced));
  EXPECT_THAT(update("none", 0), HasReason(Reason::kNamespaceNotFound));
  EXPECT_NE(n.Describe()->config().budget_bytes(), 1u << 20);
}

TEST_P(NamespaceContractTest, RepeatedUpdateChangesNothing) {
  const Caller n = NewNamespace("n", Sync(3));
  const auto update = [&n] {
    return n.Update({.budget_bytes = 1 << 20}, {"budget_bytes"}).status();
  };
  ASSERT_OK(update());
  const uint64_t revision = n.Describe()->revision();

  ASSERT_OK(update());

  EXPECT_EQ(n.Describe()->revision(), revision);
}

TEST_P(NamespaceContractTest, LowerQuorumClosesOpenRounds) {
  if (is_cluster()) GTEST_SKIP() << "servers of a cluster refuse it";
  const Caller sync = NewNamespace("s", Sync(3));
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));
  ASSERT_OK(sync.As(1).Push("w", Full({2}, 2), 1));
  Background pull([&] { return sync.As(0).Pull("w"); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(SetQuorum(sync, 2));

  EXPECT_THAT(pull.Result(), IsOkAndHolds(HasTensor(IsFilledWith(3))));
  EXPECT_THAT(sync.As(2).Push("w", Full({2}, 4), 1),
              HasReason(Reason::kStepClosed));
}

TEST_P(NamespaceContractTest, HigherQuorumCountsAboveTheStepsThatWereReached) {
  if (is_cluster()) GTEST_SKIP() << "servers of a cluster refuse it";
  const Caller sync = NewNamespace("s", Sync(3, /*quorum=*/2));
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));

  ASSERT_OK(SetQuorum(sync, 0));

  ASSERT_OK(sync.As(1).Push("w", Full({2}, 2), 1));
  EXPECT_THAT(sync.As(1).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 2));
  ASSERT_OK(sync.As(1).Push("w", Full({2}, 1), 2));
  CancelOnceItWaits(sync, [&](const auto& canceller) {
    return sync.As(0).EndedBy(canceller).Pull("w").status();
  });
  ASSERT_OK(sync.As(2).Push("w", Full({2}, 5), 2));
  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

TEST_P(NamespaceContractTest, GroupThatIsToContinueDoesWithoutTheLost) {
  if (is_cluster()) GTEST_SKIP() << "servers of a cluster refuse it";
  const Caller sync = NewNamespace("s", Sync(2));
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  const Caller a = sync.Join("a").value();
  const Caller b = sync.Join("b").value();
  ASSERT_OK(b.Fail());
  ASSERT_OK(a.Push("w", Full({2}, 3), 1));
  Background pull([&] { return a.Pull("w"); });
  AwaitWaitingCalls(sync, 1);

  ASSERT_OK(SetOnWorkerLoss(sync, OnWorkerLoss::kContinue));

  EXPECT_THAT(pull.Result(), IsOkAndHolds(HasTensor(IsFilledWith(3))));
  EXPECT_THAT(a.PushPull("w", Full({2}, 4), 2),
              IsOkAndHolds(HasTensor(IsFilledWith(4))));
}

TEST_P(NamespaceContractTest, GroupThatIsToFailAwaitsTheLostFromTheNextStepOn) {
  if (is_cluster()) GTEST_SKIP() << "servers of a cluster refuse it";
  NamespaceConfig config = Sync(2);
  config.on_worker_loss = OnWorkerLoss::kContinue;
  const Caller sync = NewNamespace("s", config);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  const Caller a = sync.Join("a").value();
  ASSERT_OK(sync.Join("b")->Fail());
  ASSERT_OK(a.PushPull("w", Full({2}, 3), 1).status());

  ASSERT_OK(SetOnWorkerLoss(sync, OnWorkerLoss::kFail));

  ASSERT_OK(a.Push("w", Full({2}, 3), 2));
  CancelOnceItWaits(sync, [&](const auto& canceller) {
    return a.EndedBy(canceller).Pull("w").status();
  });
  ASSERT_OK_AND_ASSIGN(const JoinReply joined,
                       sync.TryJoin("b", absl::Minutes(5)));
  EXPECT_EQ(joined.next_step(), 2u);
  ASSERT_OK(sync.As(WorkerOf(joined.worker())).Push("w", Full({2}, 2), 2));
  EXPECT_THAT(a.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(5))));
}

TEST_P(NamespaceContractTest, RoundsAreRescaledAsWhenTheyBegan) {
  if (is_cluster()) GTEST_SKIP() << "servers of a cluster refuse it";
  const Caller sync = NewNamespace("s", Sync(3, /*quorum=*/2));
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 2), 1));

  ASSERT_OK(sync.Update({.rescale_partial_rounds = true},
                        {"rescale_partial_rounds"}));

  EXPECT_THAT(sync.As(1).PushPull("w", Full({2}, 2), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(4))));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 2), 2));
  EXPECT_THAT(sync.As(1).PushPull("w", Full({2}, 2), 2),
              IsOkAndHolds(HasTensor(IsFilledWith(6))));
}

TEST_P(NamespaceContractTest, BudgetBelowWhatIsUsedRefusesMoreAndDropsNothing) {
  const Caller n = NewNamespace("n", {.budget_bytes = 1 << 20});
  ASSERT_OK(n.Init("w", Full({64 << 10}, 1)));
  const auto grow = [&] {
    return n.Init("w", Full({96 << 10}, 1), OnExisting::kReplace).status();
  };
  const auto set_budget = [&](uint64_t bytes) {
    return n.Update({.budget_bytes = bytes}, {"budget_bytes"}).status();
  };

  ASSERT_OK(set_budget(64 << 10));

  EXPECT_THAT(grow(), HasReason(Reason::kOverBudget));
  EXPECT_THAT(ShapeOf(*n.Stat("w")), IsOkAndHolds(Shape({64 << 10})));
  EXPECT_EQ(n.Describe()->config().budget_bytes(), 64u << 10);
  ASSERT_OK(set_budget(4 << 20));
  EXPECT_TRUE(Eventually([&] { return grow().ok(); }));
}

TEST_P(NamespaceContractTest, GradientGuardCountsFromItsUpdateOn) {
  const Caller n = NewNamespace("n", {.rule = {.name = "accumulate"}});
  ASSERT_OK(n.Init("w", Full({2}, 1)));
  ASSERT_OK(n.Push("w", Full({2}, 3)));

  ASSERT_OK(n.Update(
      {.gradient_guard = {.on_non_finite = OnNonFinite::kSkip, .max_norm = 5}},
      {"gradient_guard"}));

  ASSERT_OK(n.Push("w", Full({2}, NAN)));
  ASSERT_OK(n.Push("w", Vector({6, 8})));
  EXPECT_THAT(n.Pull("w"), IsOkAndHolds(HasTensor(HasElements({7, 8}))));
  EXPECT_THAT(n.Describe()->guard_counts(), SizeIs(1));
  ASSERT_OK(n.Update({}, {"gradient_guard.max_norm"}));
  ASSERT_OK(n.Push("w", Vector({6, 8})));
  EXPECT_THAT(n.Pull("w"), IsOkAndHolds(HasTensor(HasElements({13, 16}))));
}

}  // namespace update_contract
}  // namespace tensorkv::testing
