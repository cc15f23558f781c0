// Snapshots that have names.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/duration.h"
#include "contract/snapshot_references.h"
#include "tests/contracts/snapshot_calls.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

TEST_P(SnapshotContractTest, HasTheValuesOfItsRevisionWhateverComesAfter) {
  for (const std::string key : {"a", "b", "c"}) {
    ASSERT_OK(store_.Init(key, Full({3}, 1)));
  }
  EXPECT_EQ(Create(store_, "s"), 1);
  ASSERT_OK(store_.Push("a", Full({3}, 2)));
  EXPECT_THAT(store_.Delete({"b"}), IsOkAndHolds(1));
  ASSERT_OK(store_.Init("c", Full({5}, 7), OnExisting::kReplace));
  ASSERT_OK(store_.Init("d", Full({3}, 4)));
  EXPECT_EQ(Create(store_, "s"), 2);
  ASSERT_OK(store_.Push("a", Full({3}, 9)));

  ASSERT_OK_AND_ASSIGN(
      const PullReply first,
      store_.Call(PullOf({"a", "b", "c"}, SnapshotOf("s", 1))));

  EXPECT_EQ(first.snapshot_number, 1);
  for (const Value& value : first.values) {
    EXPECT_THAT(value, HasTensor(IsFilledWith(1)));
    EXPECT_THAT(value, HasVersion(1));
    EXPECT_EQ(value.tensor.num_elements(), 3);
  }
  const SnapshotReference second = LatestSnapshot("s");
  EXPECT_THAT(PullAt(store_, "a", second),
              IsOkAndHolds(HasTensor(IsFilledWith(2))));
  EXPECT_THAT(PullAt(store_, "c", second),
              IsOkAndHolds(HasTensor(IsFilledWith(7))));
  EXPECT_THAT(PullAt(store_, "b", second), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(PullAt(store_, "d", SnapshotOf("s", 1)),
              StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(9))));
}

// In a cluster each server's share is whole.
TEST_P(SnapshotContractTest, IsWholeWhilePushesGoOn) {
  constexpr int kNumKeys = 20;
  std::vector<std::string> keys;
  std::vector<InitEntry> entries;
  for (int i = 0; i < kNumKeys; ++i) {
    keys.push_back(absl::StrCat("k", i));
    entries.push_back({keys.back(), Full({100}, 0)});
  }
  ASSERT_OK(store_.InitMany(entries));
  std::atomic<bool> is_done = false;
  RunConcurrently(3, [&](int thread) {
    if (thread > 0) {
      for (int i = 0; !is_done; ++i) {
        std::vector<PushEntry> pushed;
        for (const std::string& key : keys) {
          pushed.push_back({.key = key, .tensor = Full({100}, i % 100)});
        }
        EXPECT_OK(store_.PushMany(std::move(pushed)));
      }
      return;
    }
    std::vector<PullReply> read;
    for (int i = 1; i <= 20; ++i) {
      EXPECT_EQ(Create(store_, "s"), i);
      absl::StatusOr<PullReply> reply =
          store_.Call(PullOf(keys, SnapshotOf("s", i)));
      EXPECT_OK(reply.status());
      if (reply.ok()) read.push_back(*std::move(reply));
    }
    for (size_t i = 0; i < read.size(); ++i) {
      const absl::StatusOr<PullReply> again =
          store_.Call(PullOf(keys, SnapshotOf("s", i + 1)));
      EXPECT_OK(again.status());
      if (!again.ok()) continue;
      for (int key = 0; key < kNumKeys; ++key) {
        const int first = is_cluster() ? key : 0;
        const double whole = ElementsOf(read[i].values[first].tensor)[0];
        EXPECT_THAT(read[i].values[key], HasTensor(IsFilledWith(whole)));
        EXPECT_THAT(again->values[key], HasTensor(IsFilledWith(whole)));
        EXPECT_EQ(again->values[key].version, read[i].values[key].version);
      }
    }
    is_done = true;
  });
}

TEST_P(SnapshotContractTest, HasTheKeysOfItsPrefixes) {
  for (const std::string key : {"a/1", "a/2", "b/1", "c"}) {
    ASSERT_OK(store_.Init(key, Full({2}, 1)));
  }
  ASSERT_EQ(Create(store_, "s", {"a/", "c", "a/1"}), 1);
  for (const std::string key : {"a/1", "b/1"}) {
    ASSERT_OK(store_.Push(key, Full({2}, 2)));
  }

  const SnapshotReference at = SnapshotOf("s", 1);
  for (const std::string key : {"a/1", "c"})
    EXPECT_THAT(PullAt(store_, key, at), IsOkAndHolds(HasVersion(1)));
  EXPECT_THAT(PullAt(store_, "b/1", at), StatusIs(StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply described,
                       Describe(store_, at));
  EXPECT_EQ(described.snapshot().num_keys(), 3);
  EXPECT_EQ(described.snapshot().bytes(), 3 * 2 * 4);
  EXPECT_EQ(described.retained_bytes(), 2 * 4);
}

TEST_P(SnapshotContractTest, IsListedAndDigestedAsItWas) {
  for (const std::string key : {"a", "b", "c", "d"}) {
    ASSERT_OK(store_.Init(key, Full({2}, 1)));
  }
  ASSERT_OK_AND_ASSIGN(const KeyStatus before, store_.Stat("b", true));
  ASSERT_EQ(Create(store_, "s"), 1);
  EXPECT_THAT(store_.Delete({"a"}), IsOkAndHolds(1));
  ASSERT_OK(store_.Push("b", Full({2}, 5)));
  ASSERT_OK(store_.Init("aa", Full({2}, 1)));

  ListRequest list;
  *list.mutable_at() = LatestSnapshot("s");
  list.set_page_size(3);
  ASSERT_OK_AND_ASSIGN(const ListReply page, store_.Call(list));
  std::vector<std::string> names;
  for (const KeyStatus& key : page.keys()) names.push_back(key.key());
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
  EXPECT_EQ(page.snapshot_number(), 1);
  list.set_page_token(page.next_page_token());
  ASSERT_OK_AND_ASSIGN(const ListReply rest, store_.Call(list));
  ASSERT_THAT(rest.keys(), SizeIs(1));
  EXPECT_EQ(rest.keys(0).key(), "d");
  EXPECT_EQ(rest.next_page_token(), "");

  StatRequest stat;
  stat.add_keys("b");
  stat.set_compute_digests(true);
  *stat.mutable_at() = SnapshotAtLeast("s", 1);
  ASSERT_OK_AND_ASSIGN(const StatReply told, store_.Call(stat));
  EXPECT_EQ(told.snapshot_number(), 1);
  EXPECT_EQ(told.keys(0).digest(), before.digest());
  EXPECT_EQ(told.keys(0).version(), before.version());
}

TEST_P(SnapshotContractTest, GivesRowsAndConverts) {
  ASSERT_OK(store_.Init("t", Full({4, 3}, 1)));
  ASSERT_EQ(Create(store_, "s"), 1);
  ASSERT_OK(store_.Push("t", Full({4, 3}, 2)));
  PullRequest rows = {.at = SnapshotOf("s", 1)};
  rows.entries.push_back(
      {.key = "t", .rows = *RowIds::Create(Vector({3, 0, 3}, DType::kI64))});

  ASSERT_OK_AND_ASSIGN(const PullReply read,
                       store_.Call(PullRowsRequest{rows}));
  EXPECT_EQ(read.snapshot_number, 1);
  EXPECT_THAT(read.values[0], HasTensor(IsFilledWith(1)));
  EXPECT_EQ(read.values[0].tensor.num_elements(), 9);

  PullRequest half = PullOf({"t"}, LatestSnapshot("s"));
  half.dtype = DType::kF16;
  ASSERT_OK_AND_ASSIGN(const PullReply converted, store_.Call(half));
  EXPECT_EQ(converted.values[0].tensor.dtype(), DType::kF16);
  EXPECT_THAT(converted.values[0], HasTensor(IsFilledWith(1)));

  rows.entries[0].rows = *RowIds::Create(Vector({4}, DType::kI64));
  EXPECT_THAT(store_.Call(PullRowsRequest{rows}).status(),
              HasReasonAbout(Reason::kRowOutOfRange,
                             ElementsAre(Pair("key", "t"), Pair("limit", "4"),
                                         Pair("row", "4"))));
}

// --- Numbers -----------------------------------------------------------------

TEST_P(SnapshotContractTest, RefusesWhatItCannotTakeAndSaysWhy) {
  CreateSnapshotRequest fifth = CreateRequestOf("s");
  fifth.set_number(5);
  fifth.set_expected_latest(0);
  ASSERT_OK(store_.Call(fifth));

  EXPECT_THAT(
      store_.Call(fifth).status(),
      HasReasonAbout(Reason::kSnapshotConflict,
                     ElementsAre(Pair("latest", "5"), Pair("series", "s"))));
  fifth.clear_expected_latest();
  EXPECT_THAT(
      store_.Call(fifth).status(),
      HasReasonAbout(Reason::kSnapshotNumberPassed,
                     ElementsAre(Pair("latest", "5"), Pair("number", "5"),
                                 Pair("series", "s"))));
  CreateSnapshotRequest next = CreateRequestOf("s");
  next.set_expected_latest(5);
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply taken, store_.Call(next));
  EXPECT_EQ(taken.number(), 6);

  using Change = std::function<void(CreateSnapshotRequest&)>;
  const std::map<std::string, Change> invalid = {
      {"no series", [](auto& call) { call.clear_series(); }},
      {"control character", [](auto& call) { call.set_series("a\n"); }},
      {"long series",
       [](auto& call) { call.set_series(std::string(257, 'a')); }},
      {"empty prefix", [](auto& call) { call.add_prefixes(""); }},
      {"time to live",
       [](auto& call) { call.mutable_time_to_live()->set_seconds(-1); }},
      {"metadata", [](auto& call) {
         (*call.mutable_metadata())["a"] = std::string(5000, 'a');
       }}};
  for (const auto& [name, change] : invalid) {
    CreateSnapshotRequest call = CreateRequestOf("s");
    change(call);
    EXPECT_THAT(store_.Call(call), StatusIs(StatusCode::kInvalidArgument))
        << name;
  }
  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(5, 6));
}

TEST_P(SnapshotContractTest, SaysOfOnesThatAreNotThereWhatItKnows) {
  ASSERT_OK(store_.Init("k", Full({1}, 1)));
  EXPECT_THAT(
      PullAt(store_, "k", LatestSnapshot("s")).status(),
      HasReasonAbout(Reason::kSnapshotNotFound,
                     ElementsAre(Pair("latest", "0"), Pair("series", "s"))));
  for (int i = 1; i <= 3; ++i) ASSERT_EQ(Create(store_, "s"), i);
  DeleteSnapshotRequest second;
  second.set_series("s");
  second.set_number(2);
  ASSERT_OK(store_.Call(second));

  EXPECT_THAT(
      PullAt(store_, "k", SnapshotOf("s", 2)).status(),
      HasReasonAbout(Reason::kSnapshotLost,
                     ElementsAre(Pair("cause", "deleted"), Pair("latest", "3"),
                                 Pair("number", "2"), Pair("series", "s"))));
  EXPECT_THAT(
      PullAt(store_, "k", SnapshotOf("s", 9)).status(),
      HasReasonAbout(Reason::kSnapshotNotFound,
                     ElementsAre(Pair("latest", "3"), Pair("number", "9"),
                                 Pair("series", "s"))));
  EXPECT_THAT(store_.Call(second).status(), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(DeleteAll(store_, "none").status(),
              StatusIs(StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const DeleteSnapshotReply rest, DeleteAll(store_, "s"));
  EXPECT_EQ(rest.num_deleted(), 2);
  EXPECT_THAT(NumbersOf(store_, "s"), IsEmpty());
  EXPECT_EQ(Create(store_, "s"), 4);
}

TEST_P(SnapshotContractTest, AReaderWaitsForANumber) {
  const Caller store = NewNamespace("waits", {});
  ASSERT_OK(store.Init("k", Full({2}, 1)));
  Background read([&] { return PullAt(store, "k", SnapshotAtLeast("s", 2)); });
  AwaitWaitingCalls(store, 1);
  ASSERT_EQ(Create(store, "s"), 1);
  AwaitWaitingCalls(store, 1);
  ASSERT_OK(store.Push("k", Full({2}, 2)));

  ASSERT_EQ(Create(store, "s"), 2);

  EXPECT_THAT(read.Result(), IsOkAndHolds(HasTensor(IsFilledWith(2))));
  ExpectWaitNames("at least 7", store, [](const Caller& caller) {
    return PullAt(caller, "k", SnapshotAtLeast("s", 7)).status();
  });
  CancelOnceItWaits(store, [&](const std::shared_ptr<Canceller>& canceller) {
    return PullAt(store.EndedBy(canceller), "k", SnapshotAtLeast("s", 7))
        .status();
  });
}

TEST_P(SnapshotContractTest, NobodyReadsAnOlderNumberAfterANewer) {
  ASSERT_OK(store_.Init("k", Full({8}, 0)));
  std::atomic<bool> is_done = false;
  RunConcurrently(4, [&](int thread) {
    if (thread == 0) {
      for (int i = 1; i <= 60; ++i) {
        PushRequest push = {.entries = {{.key = "k", .tensor = Full({8}, i)}},
                            .publish_as = PublicationOf("s")};
        push.publish_as->set_keep_last(2);
        EXPECT_OK(store_.Call(push).status());
      }
      is_done = true;
      return;
    }
    uint64_t last = 0;
    while (!is_done) {
      const absl::StatusOr<PullReply> reply =
          store_.Call(PullOf({"k"}, SnapshotAtLeast("s", last)));
      EXPECT_OK(reply.status());
      if (!reply.ok()) return;
      EXPECT_GE(reply->snapshot_number, last);
      last = reply->snapshot_number;
      EXPECT_THAT(reply->values[0],
                  HasTensor(IsFilledWith(static_cast<double>(last))));
    }
  });
}

TEST_P(SnapshotContractTest, ARepeatIsAnsweredWithTheFirstAnswer) {
  CreateSnapshotRequest create = CreateRequestOf("s");
  create.mutable_call_id()->set_client_id("client");
  create.mutable_call_id()->set_sequence(1);
  create.mutable_call_id()->set_answered_below(1);

  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply first, store_.Call(create));
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply again, store_.Call(create));

  EXPECT_EQ(first.number(), again.number());
  EXPECT_EQ(first.revision(), again.revision());
  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(1));
}

TEST_P(SnapshotContractTest, PagesThroughAllSeries) {
  for (const std::string series : {"a", "b", "b/1", "c"}) {
    CreateSnapshotRequest create = CreateRequestOf(series);
    (*create.mutable_metadata())["of"] = series;
    for (int i = 0; i < 3; ++i) ASSERT_OK(store_.Call(create));
  }
  ListSnapshotsRequest list;
  list.set_series_prefix("b");
  list.set_page_size(2);
  std::vector<std::string> found;
  do {
    ASSERT_OK_AND_ASSIGN(const ListSnapshotsReply page, store_.Call(list));
    for (const v1::SnapshotStatus& each : page.snapshots()) {
      found.push_back(absl::StrCat(each.series(), ":", each.number()));
      EXPECT_THAT(each.metadata(), Contains(Pair("of", each.series())));
    }
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());

  EXPECT_THAT(found,
              ElementsAre("b:1", "b:2", "b:3", "b/1:1", "b/1:2", "b/1:3"));
  list.set_page_token("x");
  EXPECT_THAT(store_.Call(list), StatusIs(StatusCode::kInvalidArgument));
}

// --- How long they stay ------------------------------------------------------

TEST_P(SnapshotContractTest, ASeriesKeepsItsNewestAndWhatIsLeased) {
  CreateSnapshotRequest create = CreateRequestOf("s");
  create.set_keep_last(2);
  ASSERT_OK(store_.Call(create));
  ASSERT_OK(Lease(store_, SnapshotOf("s", 1), absl::Minutes(5)));
  for (int i = 2; i <= 5; ++i) ASSERT_OK(store_.Call(create));

  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(1, 4, 5));
  EXPECT_THAT(Describe(store_, SnapshotOf("s", 3)).status(),
              HasReasonAbout(Reason::kSnapshotLost,
                             Contains(Pair("cause", "keep_last"))));
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply first,
                       Describe(store_, SnapshotOf("s", 1)));
  ASSERT_THAT(first.leases(), SizeIs(1));
  EXPECT_EQ(first.leases(0).name(), "lease");
  EXPECT_EQ(first.keep_last(), 2);

  ASSERT_OK(Lease(store_, SnapshotOf("s", 1), absl::ZeroDuration()));
  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(4, 5));
  EXPECT_THAT(Lease(store_, SnapshotOf("s", 5), absl::Hours(2)),
              StatusIs(StatusCode::kInvalidArgument));
  create.set_keep_last(UINT32_MAX);
  for (int i = 6; i <= 8; ++i) ASSERT_OK(store_.Call(create));
  EXPECT_THAT(NumbersOf(store_, "s"), SizeIs(5));
}

TEST_P(SnapshotContractTest, TheOldestGoBeyondTheBoundAndLeasedOnesLast) {
  if (is_cluster()) GTEST_SKIP() << "leases are known to the home alone";
  NamespaceConfig config;
  config.max_retained_bytes = 300 << 10;
  const Caller store = NewNamespace("bound", config);
  constexpr int64_t kElements = 25 << 10;  // of 100 KiB
  ASSERT_OK(store.Init("k", Full({kElements}, 0)));
  const auto take_and_change = [&](int i) {
    ASSERT_EQ(Create(store, "s"), i);
    ASSERT_OK(store.Push("k", Full({kElements}, i)));
  };
  take_and_change(1);
  ASSERT_OK(Lease(store, SnapshotOf("s", 1), absl::Minutes(5)));
  take_and_change(2);
  EXPECT_THAT(NumbersOf(store, "s"), ElementsAre(1, 2));
  take_and_change(3);
  EXPECT_THAT(NumbersOf(store, "s"), ElementsAre(1, 3));
  ASSERT_OK(Lease(store, SnapshotOf("s", 3), absl::Minutes(5)));
  take_and_change(4);

  EXPECT_THAT(NumbersOf(store, "s"), ElementsAre(1, 3));
  EXPECT_THAT(PullAt(store, "k", SnapshotOf("s", 4)).status(),
              HasReasonAbout(Reason::kSnapshotLost,
                             Contains(Pair("cause", "retained"))));
  EXPECT_THAT(PullAt(store, "k", SnapshotOf("s", 1)),
              IsOkAndHolds(HasTensor(IsFilledWith(0))));
  ASSERT_EQ(Create(store, "s"), 5);
  ASSERT_OK(Lease(store, SnapshotOf("s", 5), absl::Minutes(5)));
  ASSERT_OK(store.Push("k", Full({kElements}, 5)));
  EXPECT_THAT(NumbersOf(store, "s"), ElementsAre(3, 5));

  config.max_retained_bytes = 100;
  ASSERT_OK(store.Update(config, {"max_retained_bytes"}));
  EXPECT_THAT(store.Call(CreateRequestOf("s")).status(),
              HasReasonAbout(Reason::kOverBudget, SizeIs(2)));
  ASSERT_OK(store.Push("k", Full({kElements}, 6)));
}

// --- Beside other things -----------------------------------------------------

TEST_P(SnapshotContractTest, OfASyncNamespaceHasTheRoundsThatHaveClosed) {
  const Caller store = NewSyncNamespace(2);
  ASSERT_OK(store.Init("a", Full({2}, 1)));
  ASSERT_OK(store.As(0).Push("a", Full({2}, 1), 1));
  ASSERT_EQ(Create(store, "s"), 1);
  ASSERT_OK(store.As(1).Push("a", Full({2}, 2), 1));
  ASSERT_EQ(Create(store, "s"), 2);

  EXPECT_THAT(PullAt(store, "a", SnapshotOf("s", 1)),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_THAT(PullAt(store, "a", SnapshotOf("s", 2)),
              IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST_P(SnapshotContractTest, TheOptimizerGoesOnBesideIt) {
  const Caller store = NewNamespace("optimizer", {});
  ASSERT_OK(store.SetRule("adam"));
  ASSERT_OK(store.Init("a", Full({64}, 1)));
  std::vector<Tensor> values;
  for (int i = 1; i <= 10; ++i) {
    ASSERT_OK(store.Push("a", Full({64}, 1)));
    ASSERT_EQ(Create(store, "s"), i);
    ASSERT_OK_AND_ASSIGN(const Value value, store.Pull("a"));
    values.push_back(value.tensor);
  }
  for (int i = 1; i <= 10; ++i) {
    ASSERT_OK_AND_ASSIGN(const Value value,
                         PullAt(store, "a", SnapshotOf("s", i)));
    EXPECT_EQ(ElementsOf(value.tensor), ElementsOf(values[i - 1]));
  }
}

}  // namespace
}  // namespace tensorkv::testing
