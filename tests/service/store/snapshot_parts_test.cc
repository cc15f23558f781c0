// Snapshots that are made of parts: what time, bounds and the device make of
// them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "contract/duration.h"
#include "contract/row_ids.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/keyspace/snapshots/kept_snapshot.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace snapshot_parts_test {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::HasReasonAbout;
using ::tensorkv::testing::HasTensor;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::IsFilledWith;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr int64_t kElements = 1 << 14;
constexpr uint64_t kBytes = kElements * sizeof(float);

PublishAs PartOf(uint64_t number, uint32_t index, uint32_t count = 2) {
  PublishAs part;
  part.set_series("s");
  part.set_number(number);
  part.mutable_part()->set_index(index);
  part.mutable_part()->set_count(count);
  return part;
}

class SnapshotPartsTest : public ::testing::Test {
 protected:
  SnapshotPartsTest()
      : store_({.budget_bytes = 1 << 26, .max_retained_bytes = 1 << 26},
               &backend_, &alarms_) {
    EXPECT_OK(InitNow(store_, {.entries = {{"a", Full({kElements}, 0)},
                                           {"b", Full({kElements}, 0)}}}));
  }

  static PushRequest PushOf(const std::string& key, double value,
                            PublishAs part) {
    return {.entries = {{.key = key, .tensor = Full({kElements}, value)}},
            .publish_as = std::move(part)};
  }
  absl::StatusOr<PushReply> Push(PushRequest request) {
    return Await<PushReply>([&](auto done) {
      store_.Push(std::move(request), {}, std::move(done));
    });
  }
  absl::Status Push(const std::string& key, double value, PublishAs part) {
    return Push(PushOf(key, value, std::move(part))).status();
  }
  absl::Status Change(const std::string& key) {
    return Push({.entries = {{.key = key, .tensor = Full({kElements}, 99)}}})
        .status();
  }
  absl::StatusOr<Value> Pull(const std::string& key, uint64_t number) {
    absl::StatusOr<PullReply> reply = Await<PullReply>([&](auto done) {
      store_.Pull({.entries = {{key}}, .at = SnapshotOf("s", number)}, {},
                  std::move(done));
    });
    if (!reply.ok()) return reply.status();
    return std::move(reply->values.front());
  }
  absl::Status Lease(uint64_t number, absl::Duration duration) {
    LeaseSnapshotRequest request;
    *request.mutable_at() = SnapshotOf("s", number);
    request.set_lease("lease");
    EncodeDuration(duration, request.mutable_duration());
    return Await<LeaseSnapshotReply>([&](auto done) {
             store_.LeaseSnapshot(std::move(request), {}, std::move(done));
           })
        .status();
  }
  absl::Status Delete() {
    DeleteSnapshotRequest request;
    request.set_series("s");
    return Await<DeleteSnapshotReply>([&](auto done) {
             store_.DeleteSnapshot(request, {}, std::move(done));
           })
        .status();
  }
  NamespaceSummary Summary() { return store_.Summaries().front(); }
  uint64_t retained() { return Summary().memory.retained; }

  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_;
};

TEST_F(SnapshotPartsTest, EndWithTheirTimeAndTheirNumberIsFree) {
  struct Case {
    absl::Duration time_to_live;
    absl::Duration wait;
  };
  for (const Case& each : {Case{absl::ZeroDuration(), absl::Minutes(10)},
                           Case{absl::Seconds(30), absl::Seconds(30)},
                           Case{absl::Hours(5), absl::Hours(1)}}) {
    const uint64_t before = retained();
    PublishAs part = PartOf(7, 0);
    if (each.time_to_live > absl::ZeroDuration()) {
      EncodeDuration(each.time_to_live, part.mutable_time_to_live());
    }
    ASSERT_OK(Push("a", 1, part));
    ASSERT_OK(Change("a"));
    EXPECT_GE(retained(), before + kBytes);
    alarms_.Advance(each.wait - absl::Seconds(1));
    EXPECT_GE(retained(), before + kBytes);
    // Parts of a later one do not lengthen it.
    ASSERT_OK(Push("b", 1, PartOf(8, 1)));

    alarms_.Advance(absl::Seconds(1));
    EXPECT_THAT(Push("b", 2, PartOf(7, 1)),
                HasReason(Reason::kSnapshotNumberPassed));
    alarms_.Advance(absl::Minutes(10));

    EXPECT_EQ(retained(), before);
    EXPECT_EQ(Summary().num_snapshots, 0);
  }
  ASSERT_OK(Push("a", 1, PartOf(1, 0)));
  ASSERT_OK(Push("b", 1, PartOf(1, 1)));
  EXPECT_EQ(Summary().num_snapshots, 1);
  alarms_.Advance(absl::Hours(2));
  EXPECT_THAT(Pull("a", 1), IsOkAndHolds(HasTensor(IsFilledWith(1))));
}

TEST_F(SnapshotPartsTest, OfAWholeOneGoTogetherWithItsTimeOrLease) {
  const uint64_t before = retained();
  for (uint32_t i = 0; i < 2; ++i) {
    PublishAs part = PartOf(1, i);
    part.mutable_time_to_live()->set_seconds(60);
    ASSERT_OK(Push(i == 0 ? "a" : "b", 1, part));
    alarms_.Advance(absl::Seconds(40));
  }
  ASSERT_OK(Lease(1, absl::Seconds(100)));
  ASSERT_OK(Change("a"));
  ASSERT_OK(Change("b"));

  alarms_.Advance(absl::Seconds(99));
  for (const std::string key : {"a", "b"}) {
    EXPECT_THAT(Pull(key, 1), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  }
  alarms_.Advance(absl::Seconds(1));

  EXPECT_THAT(Pull("a", 1).status(),
              HasReasonAbout(Reason::kSnapshotLost,
                             Contains(Pair("cause", "expired"))));
  // What is left is the series.
  EXPECT_LE(retained(), before);
}

TEST_F(SnapshotPartsTest, ACheckpointHasNoneOfThoseThatWait) {
  ASSERT_OK(Push("a", 1, PartOf(3, 0, 1)));
  ASSERT_OK(Push("a", 1, PartOf(4, 0)));
  ASSERT_OK(Push("a", 1, PartOf(5, 0)));

  testing::KeptSnapshot before;
  ASSERT_OK(store_.TakeSnapshot({}, before));
  ASSERT_OK(Push("b", 1, PartOf(4, 1)));
  testing::KeptSnapshot after;
  ASSERT_OK(store_.TakeSnapshot({}, after));

  EXPECT_THAT(before.namespaces[0].series, ElementsAre(Pair("s", 3)));
  EXPECT_THAT(after.namespaces[0].series, ElementsAre(Pair("s", 4)));
}

TEST_F(SnapshotPartsTest, APartWhoseCallFailsIsYetToCome) {
  ASSERT_OK(Push("a", 1, PartOf(1, 0)));
  backend_.FailApply(absl::InternalError("the device has failed"));
  EXPECT_FALSE(Push("b", 1, PartOf(1, 1)).ok());
  // A number of which all parts have failed is free.
  EXPECT_FALSE(Push("b", 1, PartOf(9, 1)).ok());
  backend_.FailApply(absl::OkStatus());
  EXPECT_THAT(Pull("b", 1).status(), HasReason(Reason::kSnapshotNotFound));
  ASSERT_OK(Change("a"));

  ASSERT_OK(Push("b", 2, PartOf(1, 1)));

  EXPECT_THAT(Pull("a", 1), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_THAT(Pull("b", 1), IsOkAndHolds(HasTensor(IsFilledWith(2))));
  EXPECT_OK(Push("a", 2, PartOf(2, 0, 1)));
}

TEST_F(SnapshotPartsTest, AreReadOnceTheEffectsOfAllHaveEnded) {
  // It is so large that it is not updated by the thread of the call.
  constexpr int64_t kMany = 1 << 20;
  ASSERT_OK(InitNow(store_, {.entries = {{"large", Full({kMany}, 0)}}}));
  ASSERT_OK(Push("a", 1, PartOf(1, 0)));
  backend_.Hold();
  const Answer<absl::StatusOr<PushReply>> pushed;
  PushRequest push = PushOf("large", 1, PartOf(1, 1));
  push.entries[0].tensor = Full({kMany}, 1);
  store_.Push(std::move(push), {},
              [pushed](auto reply) { pushed.Set(std::move(reply)); });
  backend_.WaitUntilHeld();
  const Answer<absl::StatusOr<PullReply>> pulled;
  store_.Pull({.entries = {{"a"}, {"large"}}, .at = SnapshotOf("s", 1)},
              {.timeout = absl::Seconds(5)},
              [pulled](auto reply) { pulled.Set(std::move(reply)); });
  backend_.Release();

  EXPECT_OK(pushed.Wait().status());
  const absl::StatusOr<PullReply> read = pulled.Wait();
  ASSERT_OK(read.status());
  for (const Value& value : read->values) {
    EXPECT_THAT(value, HasTensor(IsFilledWith(1)));
  }
}

TEST_F(SnapshotPartsTest, ANumberThatACallWasToldIsNotGivenAgain) {
  constexpr int64_t kMany = 1 << 20;
  ASSERT_OK(InitNow(store_, {.entries = {{"large", Full({kMany}, 0)}}}));
  PublishAs unnumbered;
  unnumbered.set_series("s");
  PushRequest push = PushOf("large", 1, unnumbered);
  push.entries[0].tensor = Full({kMany}, 1);
  backend_.Hold();
  const Answer<absl::StatusOr<PushReply>> pushed;
  store_.Push(std::move(push), {},
              [pushed](auto reply) { pushed.Set(std::move(reply)); });
  backend_.WaitUntilHeld();
  // It is not ready when it goes.
  ASSERT_OK(Delete());
  backend_.Release();
  const absl::StatusOr<PushReply> first = pushed.Wait();
  ASSERT_OK(first.status());
  EXPECT_EQ(first->published->number, 1);
  ASSERT_OK(Push("a", 1, PartOf(2, 0)));
  alarms_.Advance(absl::Minutes(11));

  ASSERT_OK_AND_ASSIGN(const PushReply next, Push(PushOf("a", 1, unnumbered)));

  EXPECT_EQ(next.published->number, 2);
}

TEST_F(SnapshotPartsTest, PartsOfANumberThatHasPassedDoNotComeAfterADelete) {
  ASSERT_OK(Push("a", 1, PartOf(1, 0)));
  ASSERT_OK(Push("a", 1, PartOf(2, 0, 1)));
  ASSERT_OK(Delete());

  EXPECT_THAT(Push("b", 1, PartOf(1, 1)),
              HasReason(Reason::kSnapshotNumberPassed));
}

TEST_F(SnapshotPartsTest, GoWithTheirSeries) {
  ASSERT_OK(Push("a", 1, PartOf(1, 0, 1)));
  ASSERT_OK(Delete());
  const uint64_t before = retained();
  ASSERT_OK(Push("a", 1, PartOf(2, 0)));
  ASSERT_OK(Change("a"));

  ASSERT_OK(Delete());

  EXPECT_EQ(retained(), before);
  ASSERT_OK(Push("b", 1, PartOf(2, 1)));
  EXPECT_THAT(Pull("b", 2).status(), HasReason(Reason::kSnapshotNotFound));
}

// Snapshots may have two former values, and what they take besides.
class FewRetainedTest : public SnapshotPartsTest {
 protected:
  explicit FewRetainedTest(uint64_t max_retained_bytes = 5 * kBytes / 2) {
    EXPECT_OK(testing::MakeNow(
        store_,
        testing::UpdateOf("", {.max_retained_bytes = max_retained_bytes},
                          {"max_retained_bytes"})));
  }

  // Returns terms of a snapshot of another series, of all keys.
  static PublishAs OfAnother(uint64_t number) {
    PublishAs publish_as;
    publish_as.set_series("t");
    publish_as.set_number(number);
    return publish_as;
  }
};

TEST_F(FewRetainedTest, AllThatWaitGoWhereOneIsTheOldestThatHoldsSomething) {
  const uint64_t before = retained();
  ASSERT_OK(Push("a", 1, PartOf(1, 0, 3)));
  ASSERT_OK(Push("b", 1, PartOf(1, 1, 3)));
  ASSERT_OK(Change("a"));
  ASSERT_OK(Change("b"));
  EXPECT_GE(retained(), before + 2 * kBytes);
  ASSERT_OK(Push("b", 1, OfAnother(1)));
  ASSERT_OK(Change("b"));

  EXPECT_LT(retained(), before + 2 * kBytes);
  EXPECT_EQ(Summary().num_snapshots, 1);
  // Nothing is left of it, and its number is free.
  ASSERT_OK_AND_ASSIGN(const PushReply again,
                       Push(PushOf("a", 1, PartOf(1, 2, 4))));
  EXPECT_EQ(again.published->parts_missing, 3);
}

TEST_F(FewRetainedTest, AWholeOneGoesWithAllOfItsParts) {
  ASSERT_OK(Push("a", 1, PartOf(1, 0)));
  ASSERT_OK(Push("b", 1, PartOf(1, 1)));
  ASSERT_OK(Change("a"));
  for (const uint64_t number : {1, 2}) {
    ASSERT_OK(Push("b", 1, OfAnother(number)));
    ASSERT_OK(Change("b"));
  }

  for (const std::string key : {"a", "b"}) {
    EXPECT_THAT(Pull(key, 1).status(),
                HasReasonAbout(Reason::kSnapshotLost,
                               Contains(Pair("cause", "retained"))));
  }
  EXPECT_EQ(Summary().num_snapshots, 2);
}

TEST_F(FewRetainedTest, AWholeOneThatIsLeasedStaysBeforeOthers) {
  ASSERT_OK(Push("a", 1, PartOf(1, 0)));
  ASSERT_OK(Push("b", 1, PartOf(1, 1)));
  ASSERT_OK(Lease(1, absl::Minutes(5)));
  ASSERT_OK(Change("a"));
  for (const uint64_t number : {1, 2}) {
    ASSERT_OK(Push("b", 1, OfAnother(number)));
    ASSERT_OK(Change("b"));
  }

  for (const std::string key : {"a", "b"}) {
    EXPECT_THAT(Pull(key, 1), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  }
  EXPECT_EQ(Summary().num_snapshots, 1);
}

// The rule updates in place, so that a push needs room for what it keeps.
class OneRetainedTest : public FewRetainedTest {
 protected:
  OneRetainedTest() : FewRetainedTest(3 * kBytes / 2) {
    EXPECT_OK(
        testing::MakeNow(store_, testing::SetRuleOf("sgd", "*", "default")));
  }

  // Returns a push of one row, which changes the value where it is.
  static PushRequest RowOf(const std::string& key, PublishAs part) {
    PushRequest push = PushOf(key, 0, std::move(part));
    push.entries[0].tensor = Full({1}, 1);
    push.entries[0].rows =
        *RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 0));
    return push;
  }
};

TEST_F(OneRetainedTest, ANumberThatGoesByThePushOfItsNextPartStaysReserved) {
  ASSERT_OK(InitNow(store_, {.entries = {{"c", Full({kElements}, 1)}}}));
  ASSERT_OK(Push("a", 0, PartOf(5, 0, 3)));
  ASSERT_OK(Push(RowOf("b", PartOf(5, 1, 3))).status());
  ASSERT_OK(Push(RowOf("b", PartOf(6, 1))).status());
  // Has no room for the value of 6 beside that of 5, all of which goes.
  ASSERT_OK_AND_ASSIGN(const PushReply again,
                       Push(RowOf("b", PartOf(5, 1, 3))));
  EXPECT_EQ(again.published->parts_missing, 2);
  ASSERT_OK(Push("a", 0, PartOf(5, 0, 3)));
  ASSERT_OK(Push("c", 0, PartOf(5, 2, 3)));
  for (const std::string key : {"a", "b"}) EXPECT_OK(Pull(key, 5).status());
  {
    testing::KeptSnapshot kept;  // keeps values as long as it is there
    ASSERT_OK(store_.TakeSnapshot({}, kept));
    EXPECT_THAT(kept.namespaces[0].series, ElementsAre(Pair("s", 5)));
  }
  alarms_.Advance(absl::Minutes(11));

  PublishAs next;
  next.set_series("s");
  ASSERT_OK_AND_ASSIGN(const PushReply pushed, Push(PushOf("a", 0, next)));

  EXPECT_EQ(pushed.published->number, 6);
  EXPECT_EQ(Summary().num_snapshots, 2);
  for (const std::string key : {"a", "b"}) EXPECT_OK(Pull(key, 5).status());
  ASSERT_OK(Delete());
  EXPECT_EQ(Summary().num_snapshots, 0);
  EXPECT_LT(retained(), kBytes);
}

TEST_F(SnapshotPartsTest, AsManyNumbersWaitAsMayBeReserved) {
  for (uint64_t number = 1; number <= 1024; ++number) {
    ASSERT_OK(Push("a", 1, PartOf(number, 0)));
  }
  EXPECT_THAT(Push("a", 1, PartOf(1025, 0)),
              HasReasonAbout(Reason::kLimitReached, SizeIs(1)));
  ASSERT_OK(Push("b", 1, PartOf(1024, 1)));
  EXPECT_EQ(Summary().num_snapshots, 1);
  EXPECT_OK(Push("a", 1, PartOf(1025, 0)));
}

TEST_F(SnapshotPartsTest, AsManyAsThereMayBeAreOneSnapshot) {
  constexpr uint32_t kMost = 1024;
  std::vector<InitEntry> entries;
  for (uint32_t i = 0; i < kMost; ++i) {
    entries.push_back({absl::StrCat("k", i), Full({1}, 0)});
  }
  ASSERT_OK(InitNow(store_, {.entries = std::move(entries)}));
  const uint64_t before = retained();
  for (uint32_t i = 0; i < kMost; ++i) {
    PushRequest push = PushOf("", 0, PartOf(1, i, kMost));
    push.entries = {{.key = absl::StrCat("k", i), .tensor = Full({1}, 1)}};
    ASSERT_OK_AND_ASSIGN(const PushReply reply, Push(std::move(push)));
    EXPECT_EQ(reply.published->parts_missing, kMost - 1 - i);
  }

  EXPECT_EQ(Summary().num_snapshots, 1);
  EXPECT_THAT(Pull("k1023", 1), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  for (int i = 0; i < 10; ++i) ASSERT_OK(Lease(1, absl::Seconds(i % 2)));
  ASSERT_OK(Delete());
  EXPECT_LE(retained(), before);
}

}  // namespace snapshot_parts_test
}  // namespace tensorkv
