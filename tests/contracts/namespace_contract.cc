// Namespaces: isolation, lifecycle, and what their status tells.

#include <string>
#include <vector>

#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NamespaceConfig Sync(uint32_t num_workers) {
  return {.mode = Mode::kSync, .num_workers = num_workers};
}

TEST_P(NamespaceContractTest, DefaultExistsFromTheStart) {
  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status,
                       store_.In("default").Describe());

  EXPECT_EQ(status.name(), "default");
  EXPECT_EQ(status.config().mode(), v1::MODE_ASYNC);
  EXPECT_EQ(status.config().rule().name(), "assign");
  EXPECT_EQ(status.num_keys(), 0);
}

TEST_P(NamespaceContractTest, EmptyNameMeansDefault) {
  ASSERT_OK(store_.In("").Init("w", Full({1}, 3)));

  EXPECT_THAT(store_.In("default").Pull("w"),
              IsOkAndHolds(HasTensor(IsFilledWith(3))));
  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status, store_.In("").Describe());
  EXPECT_EQ(status.name(), "default");
}

TEST_P(NamespaceContractTest, SameKeyHoldsDifferentValues) {
  const Caller a = NewNamespace("a", {});
  const Caller b = NewNamespace("b", {});
  ASSERT_OK(a.Init("w", Full({2}, 1)));
  ASSERT_OK(b.Init("w", Full({3}, 2, DType::kF64)));

  ASSERT_OK(a.Push("w", Full({2}, 7)));

  EXPECT_THAT(a.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
  EXPECT_THAT(b.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(2)))));
}

TEST_P(NamespaceContractTest, RulesOfOneDoNotReachOthers) {
  const Caller a = NewNamespace("a", {});
  const Caller b = NewNamespace("b", {});
  ASSERT_OK(a.SetRule("accumulate"));
  ASSERT_OK(a.Init("w", Full({1}, 1)));
  ASSERT_OK(b.Init("w", Full({1}, 1)));

  ASSERT_OK(a.Push("w", Full({1}, 5)));
  ASSERT_OK(b.Push("w", Full({1}, 5)));

  EXPECT_THAT(a.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
  EXPECT_THAT(b.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(5))));
}

TEST_P(NamespaceContractTest, DescribeShowsTheConfiguration) {
  const Caller caller = NewNamespace(
      "a", {.mode = Mode::kSync,
            .num_workers = 3,
            .rule = {.name = "sgd", .hyperparameters = {{"momentum", 0.5}}},
            .budget_bytes = 1 << 20,
            .max_open_rounds = 2});

  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status, caller.Describe());

  EXPECT_EQ(status.name(), "a");
  EXPECT_EQ(status.config().mode(), v1::MODE_SYNC);
  EXPECT_EQ(status.config().num_workers(), 3);
  EXPECT_EQ(status.config().rule().name(), "sgd");
  EXPECT_EQ(status.config().rule().hyperparameters().at("momentum"), 0.5);
  EXPECT_EQ(status.config().budget_bytes(), 1 << 20);
  EXPECT_EQ(status.config().max_open_rounds(), 2);
}

TEST_P(NamespaceContractTest, DescribeCountsKeysAndBytes) {
  ASSERT_OK(store_.SetRule("sgd(momentum=0.9)"));
  ASSERT_OK(store_.InitMany({{"a", Full({100}, 0)}, {"b", Full({50}, 0)}}));
  ASSERT_OK(store_.Push("a", Full({100}, 1)));

  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status, store_.Describe());

  EXPECT_EQ(status.num_keys(), 2);
  EXPECT_EQ(status.memory().values(), 600);
  EXPECT_GE(status.memory().state(), 400);
  EXPECT_EQ(status.memory().contributions(), 0);
  EXPECT_EQ(status.updates_applied(), 1);
}

TEST_P(NamespaceContractTest, ListsAllInOrderOfTheirNames) {
  NewNamespace("z", {});
  NewNamespace("a", Sync(2));

  ASSERT_OK_AND_ASSIGN(const ListNamespacesReply reply,
                       connection().Call(ListNamespacesRequest()));

  std::vector<std::string> names;
  for (const NamespaceStatus& status : reply.namespaces()) {
    names.push_back(status.name());
  }
  EXPECT_THAT(names, ElementsAre("a", "default", "z"));
  EXPECT_EQ(reply.namespaces(0).config().num_workers(), 2);
}

TEST_P(NamespaceContractTest, SecondCreationAlreadyExists) {
  const Caller caller = NewNamespace("a", {});
  ASSERT_OK(caller.Init("w", Full({1}, 1)));

  EXPECT_THAT(caller.Create({}),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("\"a\"")));
  EXPECT_THAT(store_.In("default").Create({}),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("\"default\"")));

  EXPECT_THAT(caller.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(NamespaceContractTest, KeepAcceptsTheSameConfiguration) {
  const Caller caller = NewNamespace("a", Sync(2));
  ASSERT_OK(caller.Init("w", Full({1}, 1)));

  EXPECT_OK(caller.Create(Sync(2), OnExisting::kKeep));

  EXPECT_THAT(caller.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(NamespaceContractTest, KeepCreatesWhatIsMissing) {
  const Caller caller = store_.In("a");

  ASSERT_OK(caller.Create(Sync(2), OnExisting::kKeep));

  EXPECT_EQ(caller.Describe()->config().num_workers(), 2);
}

TEST_P(NamespaceContractTest, KeepOfAnotherConfigurationIsFailedPrecondition) {
  const Caller caller = NewNamespace("a", Sync(2));

  const absl::Status status = caller.Create(Sync(3), OnExisting::kKeep);

  EXPECT_THAT(status,
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("\"a\" exists already, with another "
                                 "configuration: num_workers: expected 2, got "
                                 "3; max_workers: expected 2, got 3")));
  EXPECT_EQ(ErrorInfoOf(status)->metadata["fields"], "num_workers,max_workers");
  EXPECT_EQ(caller.Describe()->config().num_workers(), 2);
}

TEST_P(NamespaceContractTest, DroppedNamespaceIsGoneWithItsKeys) {
  const Caller caller = NewNamespace("a", {});
  ASSERT_OK(caller.Init("w", Full({1}, 1)));

  ASSERT_OK(caller.Drop());

  EXPECT_THAT(caller.Pull("w"),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"a\"")));
  EXPECT_THAT(caller.Describe(), StatusIs(StatusCode::kNotFound));
  ASSERT_OK(caller.Create({}));
  EXPECT_THAT(caller.List()->keys(), IsEmpty());
}

TEST_P(NamespaceContractTest, CallsOfAFormerLifeAreRefused) {
  ASSERT_OK_AND_ASSIGN(const CreateNamespaceReply former,
                       connection().Call(CreateOf("n"), {}));
  const Caller n = store_.In("n");
  const uint64_t uid = former.uid();
  EXPECT_EQ(n.Describe()->uid(), uid);
  EXPECT_EQ(connection().Call(CreateOf("n", {}, OnExisting::kKeep), {})->uid(),
            uid);
  const auto call = [&](auto request, uint64_t of) {
    SetNamespace("n", request);
    SetNamespaceUid(of, request);
    return connection().Call(request, {}).status();
  };
  const InitRequest init = {.on_existing = OnExisting::kKeep,
                            .entries = {{"w", Full({1}, 1)}}};
  EXPECT_OK(call(init, uid));

  ASSERT_OK(n.Drop());
  ASSERT_OK(n.Create({}));

  EXPECT_NE(n.Describe()->uid(), uid);
  EXPECT_OK(call(init, 0));
  const auto expect_refused = [&]<typename Request>(const Request& request) {
    EXPECT_EQ(ReasonOf(call(request, uid)), Reason::kNamespaceReplaced)
        << NameOf(kMethodOf<Request>);
  };
  const std::vector<PushEntry> pushed = {{.key = "w", .tensor = Full({1}, 1)}};
  expect_refused(init);
  expect_refused(PushRequest{.entries = pushed});
  expect_refused(PushPullRequest{{.entries = pushed}});
  expect_refused(PullRequest{.entries = {{"w"}}});
  expect_refused(SetStateRequest{.entries = {{"w", "momentum", Full({1}, 1)}}});
  expect_refused(GetStateRequest{.entries = {{"w", "momentum"}}});
  expect_refused(DeleteOf({"w"}));
  expect_refused(ListRequest());
  expect_refused(StatOf({"w"}));
  expect_refused(DescribeNamespaceRequest());
  expect_refused(SetRuleOf("sgd"));
  expect_refused(OfPattern<UnsetRuleRequest>("w"));
  expect_refused(SetHyperparametersOf({{"learning_rate", 1}}));
  expect_refused(JoinOf("n", "a", absl::Minutes(1)));
  expect_refused(RequestOfMember<KeepAliveRequest>("n", {.epoch = 1}));
  expect_refused(RequestOfMember<LeaveRequest>("n", {.epoch = 1}));
  expect_refused(BarrierOf("n", {.epoch = 1}, "b"));

  EXPECT_THAT(n.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(NamespaceContractTest, NamespaceHasTheUidThatItIsGiven) {
  const auto create = [&](uint64_t uid, OnExisting on_existing) {
    return connection().Call(CreateOf("n", {}, on_existing, uid));
  };

  ASSERT_OK_AND_ASSIGN(const CreateNamespaceReply reply,
                       create(7, OnExisting::kFail));

  EXPECT_EQ(reply.uid(), 7u);
  EXPECT_EQ(store_.In("n").Describe()->uid(), 7u);
  EXPECT_EQ(create(7, OnExisting::kKeep)->uid(), 7u);
  EXPECT_EQ(create(0, OnExisting::kKeep)->uid(), 7u);
  EXPECT_EQ(ReasonOf(create(7, OnExisting::kFail).status()),
            Reason::kNamespaceExists);
  for (const uint64_t another : {6, 8}) {
    const absl::Status status = create(another, OnExisting::kKeep).status();
    EXPECT_EQ(ReasonOf(status), Reason::kNamespaceReplaced);
    EXPECT_EQ(ErrorInfoOf(status)->metadata["uid"], "0000000000000007");
  }
  EXPECT_EQ(store_.In("n").Describe()->uid(), 7u);
}

TEST_P(NamespaceContractTest, ChoicesThatAreUnknownAreRefused) {
  CreateNamespaceRequest request = CreateOf("n");
  request.set_on_existing(static_cast<v1::OnExisting>(-1));
  EXPECT_THAT(connection().Call(request, {}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("on_existing: unknown number -1")));
  request.set_on_existing(v1::ON_EXISTING_KEEP);
  request.mutable_config()->set_mode(static_cast<v1::Mode>(9));
  EXPECT_THAT(connection().Call(request, {}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("mode: unknown number 9")));
  UpdateNamespaceRequest update = UpdateOf("default", {}, {"gradient_guard"});
  update.mutable_config()->mutable_gradient_guard()->set_on_non_finite(
      static_cast<v1::OnNonFinite>(9));
  EXPECT_THAT(connection().Call(update, {}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("on_non_finite: unknown number 9")));
}

// Who repeats a Delete does not remove what has come since.
TEST_P(NamespaceContractTest, DeleteOfAFormerLifeIsRefused) {
  const Caller n = NewNamespace("n", {});
  const auto remove = [&](uint64_t uid) {
    return connection().Call(RemoveOf("n", uid), {}).status();
  };
  const uint64_t former = n.Describe()->uid();
  EXPECT_OK(remove(former));
  EXPECT_THAT(n.Describe(), StatusIs(StatusCode::kNotFound));
  ASSERT_OK(n.Create({}));
  ASSERT_OK(n.Init("w", Full({1}, 1)));

  EXPECT_EQ(ReasonOf(remove(former)), Reason::kNamespaceReplaced);

  EXPECT_OK(n.Pull("w"));
  EXPECT_OK(remove(n.Describe()->uid()));
  EXPECT_THAT(n.Pull("w"), StatusIs(StatusCode::kNotFound));
}

TEST_P(NamespaceContractTest, SettingsThatTheModeDoesNotUseAreRefused) {
  const Caller n = store_.In("n");
  const auto is_refused = [](const std::string& field) {
    return StatusIs(StatusCode::kInvalidArgument, HasSubstr(field));
  };

  EXPECT_THAT(n.Create({.num_workers = 2}), is_refused("num_workers"));
  EXPECT_THAT(n.Create({.max_workers = 2}), is_refused("max_workers"));
  EXPECT_THAT(n.Create({.on_worker_loss = OnWorkerLoss::kContinue}),
              is_refused("on_worker_loss"));
  NamespaceConfig sync = Sync(2);
  sync.staleness = 1;
  EXPECT_THAT(n.Create(sync), is_refused("staleness"));
}

TEST_P(NamespaceContractTest, GroupRoundsAndQuorumMustMakeSense) {
  const auto expect_refused = [&](const std::string& field, auto spoil) {
    NamespaceConfig config = Sync(3);
    spoil(config);
    EXPECT_THAT(store_.In("n").Create(config),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(field)));
  };

  expect_refused("max_open_rounds", [](auto& c) { c.max_open_rounds = 65; });
  expect_refused("max_workers", [](auto& c) { c.max_workers = 2; });
  expect_refused("max_workers", [](auto& c) { c.max_workers = 5000; });
  expect_refused("quorum", [](auto& c) { c.quorum = 4; });
  expect_refused("quorum_grace", [](auto& c) {
    c.quorum = 2;
    c.quorum_grace = absl::Hours(2);
  });
}

TEST_P(NamespaceContractTest, DropEndsCallsThatWaitInIt) {
  const Caller caller = NewNamespace("a", {});
  ASSERT_OK(caller.Init("w", Full({1}, 1)));
  Background version([&] { return caller.Pull("w", 2); });
  Background appearance([&] { return caller.Await("absent"); });
  const Caller worker = caller.Join("first").value();
  ASSERT_OK(caller.Join("second"));
  Background barrier([&] { return worker.Barrier("b"); });
  AwaitWaitingCalls(caller, 3);

  ASSERT_OK(caller.Drop());

  EXPECT_THAT(version.Result(),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"a\" was deleted")));
  EXPECT_THAT(appearance.Result(), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(barrier.Result(), StatusIs(StatusCode::kNotFound));
}

TEST_P(NamespaceContractTest, DefaultCannotBeDropped) {
  EXPECT_THAT(
      store_.In("default").Drop(),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("\"default\"")));
  EXPECT_THAT(store_.In("").Drop(), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_P(NamespaceContractTest, SyncHas1To4096Workers) {
  EXPECT_THAT(store_.In("a").Create(Sync(0)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("num_workers")));
  EXPECT_THAT(store_.In("a").Describe(), StatusIs(StatusCode::kNotFound));
  EXPECT_OK(store_.In("most").Create(Sync(4096)));
  EXPECT_THAT(store_.In("more").Create(Sync(4097)),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("4096"), HasSubstr("4097"))));
}

TEST_P(NamespaceContractTest, RuleOfTheConfigurationIsChecked) {
  EXPECT_THAT(store_.In("a").Create({.rule = {.name = "sdg"}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"sdg\"")));
  EXPECT_THAT(store_.In("a").Describe(), StatusIs(StatusCode::kNotFound));
}

TEST_P(NamespaceContractTest, CountsRoundsOfSyncNamespaces) {
  const Caller sync = NewSyncNamespace(1);
  ASSERT_OK(sync.Init("w", Full({1}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({1}, 1), 1));
  ASSERT_OK(sync.As(0).Push("w", Full({1}, 1), 2));
  ASSERT_OK(sync.As(0).Pull("w"));  // the rounds have been applied

  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status, sync.Describe());

  EXPECT_EQ(status.rounds_closed(), 2);
  EXPECT_EQ(status.rounds_open(), 0);
  EXPECT_EQ(status.rounds_failed(), 0);
  EXPECT_EQ(status.updates_applied(), 2);
}

}  // namespace
}  // namespace tensorkv::testing
