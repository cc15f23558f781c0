// What one server makes of the steps by which snapshots of a cluster are taken.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "contract/placement.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace cluster_shares_test {

using ::absl::StatusCode;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::HasTensor;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::IsFilledWith;
using ::tensorkv::testing::StatusIs;

// No update of so many elements runs with the call.
constexpr int64_t kMany = 1 << 20;

class ClusterSharesTest : public ::testing::Test {
 protected:
  ClusterSharesTest() {
    store_.Own(all_);
    EXPECT_OK(InitNow(store_, {.entries = {{"k", Full({kMany}, 1)}}}));
  }

  absl::StatusOr<CreateSnapshotReply> Make(const CreateSnapshotRequest& request,
                                           CallContext context = {}) {
    return Await<CreateSnapshotReply>([&](auto done) {
      store_.CreateSnapshot(request, std::move(context), std::move(done));
    });
  }
  static CreateSnapshotRequest StepOf(
      CreateSnapshotRequest::Step step,
      const CreateSnapshotReply& reserved = {}) {
    CreateSnapshotRequest request;
    request.set_series("s");
    request.set_step(step);
    if (reserved.uid() == 0) return request;
    request.set_number(reserved.number());
    request.set_uid(reserved.uid());
    return request;
  }
  CreateSnapshotReply Reserve(uint64_t number = 0) {
    CreateSnapshotRequest request = StepOf(CreateSnapshotRequest::RESERVE);
    if (number != 0) request.set_number(number);
    return Make(request).value();
  }
  absl::StatusOr<CreateSnapshotReply> Prepare(
      const CreateSnapshotReply& reserved, bool has_share = false) {
    CreateSnapshotRequest request =
        StepOf(CreateSnapshotRequest::PREPARE, reserved);
    request.set_has_share(has_share);
    return Make(request);
  }
  absl::StatusOr<CreateSnapshotReply> Name(
      const CreateSnapshotReply& reserved) {
    return Make(StepOf(CreateSnapshotRequest::NAME, reserved));
  }
  // Does so with what its PREPARE says of the share that is there.
  absl::StatusOr<CreateSnapshotReply> NameAsPrepared(
      const CreateSnapshotReply& reserved) {
    const absl::StatusOr<CreateSnapshotReply> share =
        Prepare(reserved, /*has_share=*/true);
    if (!share.ok()) return share;
    CreateSnapshotRequest name = StepOf(CreateSnapshotRequest::NAME, reserved);
    name.add_shares()->set_server("a");
    name.mutable_shares(0)->set_incarnation(share->incarnation());
    name.mutable_shares(0)->set_revision(share->revision());
    return Make(name);
  }
  // A push of that value to "k", which takes a share if one is reserved.
  static PushRequest PushOf(double value,
                            const CreateSnapshotReply& reserved = {}) {
    PushRequest push = {
        .entries = {{.key = "k", .tensor = Full({kMany}, value)}}};
    if (reserved.uid() == 0) return push;
    PublishAs& publish_as = push.publish_as.emplace();
    publish_as.set_series("s");
    publish_as.set_number(reserved.number());
    publish_as.set_uid(reserved.uid());
    return push;
  }
  absl::StatusOr<PushReply> Push(double value,
                                 const CreateSnapshotReply& reserved = {}) {
    return Await<PushReply>([&](auto done) {
      store_.Push(PushOf(value, reserved), {}, std::move(done));
    });
  }
  // Expects that "k" has that value in the share.
  void ExpectHas(double value, const CreateSnapshotReply& share) {
    SnapshotReference at = SnapshotOf("s", share.number());
    at.set_uid(share.uid());
    const absl::StatusOr<PullReply> reply = Await<PullReply>([&](auto done) {
      store_.Pull({.entries = {{"k"}}, .at = at}, {}, std::move(done));
    });
    ASSERT_OK(reply.status());
    EXPECT_THAT(reply->values[0], HasTensor(IsFilledWith(value)));
  }

  absl::Status Describe(const SnapshotReference& at) {
    DescribeSnapshotRequest request;
    *request.mutable_at() = at;
    return Await<DescribeSnapshotReply>([&](auto done) {
             store_.DescribeSnapshot(request, {}, std::move(done));
           })
        .status();
  }

  const PartitionSet all_ = {.num_partitions = 2, .partitions = {0, 1}};
  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_{
      {.budget_bytes = 1 << 30, .max_retained_bytes = 1 << 30},
      &backend_,
      &alarms_};
};

TEST_F(ClusterSharesTest, AShareIsThatOfItsCallWhateverBecomesOfThoseWhoAsk) {
  const CreateSnapshotReply reserved = Reserve();
  backend_.Hold();
  const Answer<absl::StatusOr<PushReply>> pushed;
  store_.Push(PushOf(2, reserved), {},
              [pushed](auto reply) { pushed.Set(std::move(reply)); });
  CreateSnapshotRequest prepare =
      StepOf(CreateSnapshotRequest::PREPARE, reserved);
  prepare.set_has_share(true);
  const Answer<absl::StatusOr<CreateSnapshotReply>> late;
  store_.CreateSnapshot(prepare, {.timeout = absl::Seconds(5)},
                        [late](auto reply) { late.Set(std::move(reply)); });
  alarms_.Advance(absl::Seconds(6));
  EXPECT_THAT(late.Wait(), StatusIs(StatusCode::kDeadlineExceeded));
  backend_.Release();
  ASSERT_OK(pushed.Wait().status());
  ASSERT_OK(Push(3));

  ASSERT_OK(Make(prepare));
  ExpectHas(2, reserved);
  ASSERT_OK(Name(reserved));
}

TEST_F(ClusterSharesTest, AShareThatIsToBeThereIsNotTakenAnew) {
  EXPECT_THAT(Prepare(Reserve(), /*has_share=*/true),
              HasReason(Reason::kSnapshotLost));
}

TEST_F(ClusterSharesTest, NothingReplacesAShareThatIsComplete) {
  const CreateSnapshotReply reserved = Reserve();
  ASSERT_OK(Push(2, reserved));
  // The call comes in two parts.
  ASSERT_OK(Push(3, reserved));
  ASSERT_OK(Prepare(reserved));

  EXPECT_THAT(Push(4, reserved), StatusIs(StatusCode::kInvalidArgument));
  ExpectHas(3, reserved);
  ASSERT_OK(Name(reserved));
  // Repeats that come late.
  EXPECT_OK(Prepare(reserved, /*has_share=*/true));
  EXPECT_OK(Name(reserved));
  EXPECT_THAT(Push(4, reserved), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(ClusterSharesTest, AnOlderStateIsNotNamedAfterANewerOne) {
  const CreateSnapshotReply older = Reserve();
  const CreateSnapshotReply newer = Reserve();
  ASSERT_OK(Push(2, older));
  ASSERT_OK(Push(3, newer));
  ASSERT_OK(NameAsPrepared(newer));

  EXPECT_THAT(NameAsPrepared(older), HasReason(Reason::kSnapshotNumberPassed));
}

TEST_F(ClusterSharesTest, ALaterStateGetsAHigherNumberUnlessItAsksForOne) {
  for (const uint64_t asked : {0, 10}) {
    const CreateSnapshotReply first = Reserve(asked);
    const CreateSnapshotReply second = Reserve();
    ASSERT_OK(Push(2, second));
    ASSERT_OK(Push(3, first));
    ASSERT_OK(Name(second));

    const absl::StatusOr<CreateSnapshotReply> named = Name(first);

    if (asked != 0) {
      EXPECT_THAT(named, HasReason(Reason::kSnapshotNumberPassed));
    } else {
      ASSERT_OK(named.status());
      EXPECT_EQ(named->number(), second.number() + 1);
    }
  }
}

TEST_F(ClusterSharesTest, ANumberIsFreeAgainOnceItsTimeIsOver) {
  const CreateSnapshotReply reserved = Reserve();
  ASSERT_OK(Prepare(reserved));
  alarms_.Advance(absl::Hours(2));

  EXPECT_EQ(Reserve(reserved.number()).number(), reserved.number());
  EXPECT_THAT(Name(reserved), StatusIs(StatusCode::kNotFound));
}

TEST_F(ClusterSharesTest, NumbersAreFreeAgainInWhateverOrderTheirTimesEnd) {
  const CreateSnapshotReply first = Reserve();
  alarms_.Advance(absl::Seconds(40));
  const CreateSnapshotReply second = Reserve();
  alarms_.Advance(absl::Seconds(40));
  EXPECT_EQ(Reserve().number(), second.number() + 1);
  alarms_.Advance(absl::Hours(2));
  // It comes late, and is never named.
  ASSERT_OK(Prepare(second));

  EXPECT_EQ(Reserve(first.number()).number(), first.number());
}

TEST_F(ClusterSharesTest, AServerThatHasSomeKeysTakesNoSnapshotWithoutShares) {
  const uint32_t home = PartitionOf("default", "", 2);
  store_.Own(
      {.num_partitions = 2, .partitions = {home}, .placement_version = 7});
  const CreateSnapshotRequest create =
      StepOf(CreateSnapshotRequest::STEP_UNSPECIFIED);
  PushRequest push = PushOf(2);
  push.publish_as.emplace().set_series("s");
  const auto make_push = [&] {
    return Await<PushReply>(
        [&](auto done) { store_.Push(push, {}, std::move(done)); });
  };

  for (const absl::Status& status :
       {Make(create).status(), make_push().status()}) {
    EXPECT_THAT(status, HasReason(Reason::kWrongServer,
                                  {{"key", ""}, {"placement_version", "7"}}));
  }
  ASSERT_OK(Prepare(Reserve()));

  store_.Own(all_);
  EXPECT_OK(Make(create));
  EXPECT_OK(make_push());
}

TEST_F(ClusterSharesTest, AHomeThatComesBackNamesNothingOfBefore) {
  for (const bool is_given_away : {true, false}) {
    const CreateSnapshotReply named = Reserve();
    ASSERT_OK(Prepare(named));
    ASSERT_OK(Name(named));
    const CreateSnapshotReply reserved = Reserve();
    ASSERT_OK(Prepare(reserved));

    if (is_given_away) {
      ASSERT_OK(store_.Fence(all_, [] { return absl::OkStatus(); }));
      store_.FenceReads();
      store_.GiveAway();
    } else {
      ASSERT_OK(store_.StartAdoption(all_)->Commit());
    }
    store_.Own(all_);

    EXPECT_THAT(Describe(LatestSnapshot("s")),
                HasReason(Reason::kSnapshotNotFound));
    EXPECT_THAT(Describe(SnapshotOf("s", named.number())),
                HasReason(Reason::kSnapshotLost));
    EXPECT_THAT(Name(reserved), StatusIs(StatusCode::kNotFound));
    EXPECT_GT(Reserve().number(), reserved.number());
  }
}

TEST_F(ClusterSharesTest, WhatIsNamedIsDeletedByItsNumberAlone) {
  const CreateSnapshotReply before = Reserve();
  ASSERT_OK(Prepare(before));
  ASSERT_OK(Name(before));
  const CreateSnapshotReply named = Reserve();
  ASSERT_OK(Prepare(named));
  ASSERT_OK(Name(named));
  DeleteSnapshotRequest drop;
  drop.set_series("s");
  drop.add_uids(named.uid());

  ASSERT_OK_AND_ASSIGN(const DeleteSnapshotReply reply,
                       Await<DeleteSnapshotReply>([&](auto done) {
                         store_.DeleteSnapshot(drop, {}, std::move(done));
                       }));

  EXPECT_EQ(reply.num_deleted(), 0u);
  EXPECT_OK(Describe(SnapshotOf("s", named.number())));
}

TEST_F(ClusterSharesTest, ARepeatedNameHearsThatItsSnapshotHasGone) {
  const CreateSnapshotReply first = Reserve();
  const CreateSnapshotReply second = Reserve();
  ASSERT_OK(Prepare(second));
  ASSERT_OK(Name(second));
  ASSERT_OK(Prepare(first));
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply named, Name(first));
  EXPECT_NE(named.number(), first.number());
  DeleteSnapshotRequest remove;
  remove.set_series("s");
  remove.set_number(named.number());
  ASSERT_OK(Await<DeleteSnapshotReply>(
      [&](auto done) { store_.DeleteSnapshot(remove, {}, std::move(done)); }));

  EXPECT_THAT(Name(first), HasReason(Reason::kSnapshotLost));
}

TEST_F(ClusterSharesTest, ALostShareSaysNothingOfItsNumber) {
  const CreateSnapshotReply reserved = Reserve();
  ASSERT_OK(Prepare(reserved));
  ASSERT_OK(testing::MakeNow(
      store_, testing::UpdateOf("default", {.max_retained_bytes = 1000},
                                {"max_retained_bytes"})));
  ASSERT_OK(Push(2));

  SnapshotReference at = SnapshotOf("s", reserved.number());
  EXPECT_THAT(Describe(at), HasReason(Reason::kSnapshotNotFound));
  at.set_uid(reserved.uid());
  EXPECT_THAT(Describe(at), HasReason(Reason::kSnapshotLost));
}

TEST_F(ClusterSharesTest, QuestionsAboutSharesAreCut) {
  constexpr int kSnapshots = 1500;
  for (int i = 0; i < kSnapshots; ++i) {
    const CreateSnapshotReply reserved = Reserve();
    ASSERT_OK(Prepare(reserved));
    CreateSnapshotRequest name = StepOf(CreateSnapshotRequest::NAME, reserved);
    name.add_shares()->set_server("a");
    name.add_shares()->set_server("b");
    ASSERT_OK(Make(name));
  }

  int num_asked = 0;
  for (const auto& request : store_.OpenShares()->SharesToFind()) {
    EXPECT_LE(request.uids_size(), 1024);
    num_asked += request.uids_size();
  }

  EXPECT_EQ(num_asked, 2 * kSnapshots);
}

TEST_F(ClusterSharesTest, ANameHasTheTermsAndIsCountedAndBounded) {
  const CreateSnapshotReply reserved = Reserve();
  ASSERT_OK(Prepare(reserved));
  CreateSnapshotRequest name = StepOf(CreateSnapshotRequest::NAME, reserved);
  (*name.mutable_metadata())["loss"] = std::string(1000, '1');
  for (int i = 0; i < 3; ++i) {
    name.add_shares()->set_server(absl::StrCat("server", i));
  }
  // The placement has two partitions.
  EXPECT_THAT(Make(name), StatusIs(StatusCode::kInvalidArgument));
  name.mutable_shares()->RemoveLast();
  ASSERT_OK(testing::MakeNow(
      store_, testing::UpdateOf("default", {.max_retained_bytes = 1500},
                                {"max_retained_bytes"})));
  EXPECT_THAT(Make(name), HasReason(Reason::kOverBudget));
  ASSERT_OK(testing::MakeNow(
      store_, testing::UpdateOf("default", {.max_retained_bytes = 1 << 20},
                                {"max_retained_bytes"})));
  const uint64_t before = store_.Summaries().front().memory.retained;

  ASSERT_OK(Make(name));

  EXPECT_GT(store_.Summaries().front().memory.retained, before + 1000);
}

TEST_F(ClusterSharesTest, AStatOfAShareMayLeaveOutWhatIsNotThere) {
  const CreateSnapshotReply reserved = Reserve();
  ASSERT_OK(Prepare(reserved));
  StatRequest stat;
  for (const char* const key : {"a", "k"}) stat.add_keys(key);
  stat.set_allow_missing(true);
  const auto make = [&] {
    return Await<StatReply>(
        [&](auto done) { store_.Stat(stat, {}, std::move(done)); });
  };
  EXPECT_THAT(make(), StatusIs(StatusCode::kInvalidArgument));
  *stat.mutable_at() = SnapshotOf("s", reserved.number());
  stat.mutable_at()->set_uid(reserved.uid());

  ASSERT_OK_AND_ASSIGN(const StatReply reply, make());

  ASSERT_EQ(reply.keys_size(), 1);
  EXPECT_EQ(reply.keys(0).key(), "k");
}

TEST_F(ClusterSharesTest, AShareHasThePartitionsThatItsServerOwnsByThen) {
  EXPECT_EQ(Prepare(Reserve())->partitions(), DigestOf({0, 1}));
  store_.Own({.num_partitions = 2, .partitions = {1}});
  EXPECT_EQ(Prepare(Reserve())->partitions(), DigestOf({1}));
}

TEST_F(ClusterSharesTest, AServerThatIsInNoClusterHasNone) {
  MemoryTensorStore store({}, &backend_, &alarms_);
  for (const CreateSnapshotRequest::Step step :
       {CreateSnapshotRequest::RESERVE, CreateSnapshotRequest::PREPARE,
        CreateSnapshotRequest::NAME}) {
    CreateSnapshotRequest request = StepOf(step);
    if (step != CreateSnapshotRequest::RESERVE) {
      request.set_uid(7);
      request.set_number(1);
    }
    EXPECT_THAT(Await<CreateSnapshotReply>([&](auto done) {
                  store.CreateSnapshot(request, {}, std::move(done));
                }),
                StatusIs(StatusCode::kFailedPrecondition));
  }
}

}  // namespace cluster_shares_test
}  // namespace tensorkv
