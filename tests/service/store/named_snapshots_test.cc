// Named snapshots: what time and the device make of them, and what they cost.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "contract/duration.h"
#include "contract/placement.h"
#include "contract/row_ids.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/looks.h"
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
namespace {

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
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class NamedSnapshotsTest : public ::testing::Test {
 protected:
  explicit NamedSnapshotsTest(
      const MemoryTensorStoreOptions& options = {.budget_bytes = 1 << 30,
                                                 .max_retained_bytes = 1 << 30})
      : store_(options, &backend_, &alarms_) {}

  static CreateSnapshotRequest CreateOf(const std::string& series) {
    CreateSnapshotRequest request;
    request.set_series(series);
    return request;
  }
  absl::StatusOr<CreateSnapshotReply> Create(CreateSnapshotRequest request) {
    return Await<CreateSnapshotReply>([&](auto done) {
      store_.CreateSnapshot(std::move(request), {}, std::move(done));
    });
  }
  absl::StatusOr<PushReply> Push(PushRequest request) {
    return Await<PushReply>([&](auto done) {
      store_.Push(std::move(request), {}, std::move(done));
    });
  }
  absl::StatusOr<PushReply> Push(const std::string& key, Tensor tensor) {
    return Push(
        PushRequest{.entries = {{.key = key, .tensor = std::move(tensor)}}});
  }
  absl::StatusOr<Value> Pull(const std::string& key,
                             const SnapshotReference& at) {
    absl::StatusOr<PullReply> reply = Await<PullReply>([&](auto done) {
      store_.Pull({.entries = {{key}}, .at = at}, {}, std::move(done));
    });
    if (!reply.ok()) return reply.status();
    return std::move(reply->values.front());
  }
  absl::Status Lease(const SnapshotReference& at, absl::Duration duration,
                     const std::string& name = "lease") {
    LeaseSnapshotRequest request;
    *request.mutable_at() = at;
    request.set_lease(name);
    EncodeDuration(duration, request.mutable_duration());
    return Await<LeaseSnapshotReply>([&](auto done) {
             store_.LeaseSnapshot(std::move(request), {}, std::move(done));
           })
        .status();
  }
  absl::StatusOr<DescribeSnapshotReply> Describe(const SnapshotReference& at) {
    DescribeSnapshotRequest request;
    *request.mutable_at() = at;
    return Await<DescribeSnapshotReply>([&](auto done) {
      store_.DescribeSnapshot(request, {}, std::move(done));
    });
  }
  NamespaceSummary Summary() { return store_.Summaries().front(); }

  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_;
};

TEST_F(NamedSnapshotsTest, EndsWithItsTimeUnlessSomebodyHasALease) {
  ASSERT_OK(InitNow(store_, {.entries = {{"k", Full({2}, 1)}}}));
  CreateSnapshotRequest create = CreateOf("s");
  create.mutable_time_to_live()->set_seconds(60);
  ASSERT_OK(Create(create));
  ASSERT_OK(Create(create));
  ASSERT_OK(Lease(SnapshotOf("s", 1), absl::Seconds(100)));
  ASSERT_OK(Push("k", Full({2}, 2)));

  alarms_.Advance(absl::Seconds(61));
  EXPECT_THAT(Pull("k", SnapshotOf("s", 2)).status(),
              HasReasonAbout(Reason::kSnapshotLost,
                             Contains(Pair("cause", "expired"))));
  // The latest is not an older one now.
  EXPECT_THAT(
      Pull("k", LatestSnapshot("s")).status(),
      HasReasonAbout(Reason::kSnapshotLost, Contains(Pair("number", "2"))));
  EXPECT_THAT(Pull("k", SnapshotOf("s", 1)),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));

  ASSERT_OK(Lease(SnapshotOf("s", 1), absl::Seconds(100)));
  alarms_.Advance(absl::Seconds(60));
  EXPECT_OK(Pull("k", SnapshotOf("s", 1)).status());
  alarms_.Advance(absl::Seconds(41));
  EXPECT_THAT(Pull("k", SnapshotOf("s", 1)),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Summary().num_snapshots, 0);
}

TEST_F(NamedSnapshotsTest, OfACallThatFailsIsNeverThere) {
  ASSERT_OK(InitNow(store_, {.entries = {{"k", Full({2}, 1)}}}));
  PushRequest push = {.entries = {{.key = "k", .tensor = Full({2}, 2)}}};
  push.publish_as.emplace().set_series("s");
  backend_.FailApply(absl::InternalError("the device has failed"));
  EXPECT_FALSE(Push(push).ok());
  backend_.FailApply(absl::OkStatus());

  EXPECT_THAT(Pull("k", LatestSnapshot("s")),
              StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const PushReply pushed, Push(push));
  EXPECT_EQ(pushed.published->number, 1);
  EXPECT_THAT(Pull("k", LatestSnapshot("s")),
              IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_F(NamedSnapshotsTest, AValueThatDoesNotChangeIsKeptOnce) {
  constexpr int64_t kElements = 2;
  const auto retained_by = [this](uint64_t number) {
    DescribeSnapshotRequest request;
    *request.mutable_at() = SnapshotOf("s", number);
    const auto described = Await<DescribeSnapshotReply>([&](auto done) {
      store_.DescribeSnapshot(request, {}, std::move(done));
    });
    return described.ok() ? described->retained_bytes() : UINT64_MAX;
  };
  ASSERT_OK(InitNow(store_, {.entries = {{"k", Full({kElements}, 1)}}}));
  ASSERT_OK(Create(CreateOf("s")));
  ASSERT_OK(Push({.entries = {{.key = "k", .skip = true}}}));
  EXPECT_EQ(retained_by(1), 0);
  backend_.FailApply(absl::InternalError("the device has failed"));
  EXPECT_FALSE(Push("k", Full({kElements}, 2)).ok());
  ASSERT_OK(Create(CreateOf("s")));
  EXPECT_FALSE(Push("k", Full({kElements}, 3)).ok());
  backend_.FailApply(absl::OkStatus());

  ASSERT_OK(Push("k", Full({kElements}, 4)));

  EXPECT_EQ(retained_by(1) + retained_by(2), kElements * sizeof(float));
  ASSERT_OK(Push("k", Full({kElements}, 5)));
  for (const int number : {1, 2}) {
    EXPECT_THAT(Pull("k", SnapshotOf("s", number)),
                IsOkAndHolds(HasTensor(IsFilledWith(1))));
  }
}

TEST_F(NamedSnapshotsTest, WaitsForEffectsUnderWayAndHasNoLaterOnes) {
  ASSERT_OK(InitNow(store_, {.entries = {{"k", Full({1 << 20}, 1)}}}));
  backend_.Hold();
  const Answer<absl::StatusOr<PushReply>> pushed[2];
  store_.Push(
      {.entries = {{.key = "k", .tensor = Full({1 << 20}, 2)}}}, {},
      [answer = pushed[0]](auto reply) { answer.Set(std::move(reply)); });
  const Answer<absl::StatusOr<CreateSnapshotReply>> created[2];
  store_.CreateSnapshot(CreateOf("s"), {}, [answer = created[0]](auto reply) {
    answer.Set(std::move(reply));
  });
  CreateSnapshotRequest second = CreateOf("s");
  second.set_number(5);
  second.set_expected_latest(1);
  second.set_keep_last(1);
  store_.CreateSnapshot(
      second, {.timeout = absl::Seconds(5)},
      [answer = created[1]](auto reply) { answer.Set(std::move(reply)); });
  store_.Push(
      {.entries = {{.key = "k", .tensor = Full({1 << 20}, 3)}}}, {},
      [answer = pushed[1]](auto reply) { answer.Set(std::move(reply)); });
  const Answer<absl::StatusOr<PullReply>> pulled;
  store_.Pull({.entries = {{"k"}}, .at = SnapshotOf("s", 1)},
              {.timeout = absl::Seconds(5)},
              [pulled](auto reply) { pulled.Set(std::move(reply)); });
  alarms_.Advance(absl::Seconds(6));
  EXPECT_THAT(pulled.Wait(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(created[1].Wait(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  // A repeat is not too late, while effects are under way and after them.
  const Answer<absl::StatusOr<CreateSnapshotReply>> repeated;
  store_.CreateSnapshot(
      second, {.timeout = absl::Seconds(5)},
      [repeated](auto reply) { repeated.Set(std::move(reply)); });
  alarms_.Advance(absl::Seconds(6));
  EXPECT_THAT(repeated.Wait(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  backend_.Release();

  EXPECT_OK(created[0].Wait().status());
  for (const auto& each : pushed) EXPECT_OK(each.Wait().status());
  EXPECT_THAT(Pull("k", SnapshotOf("s", 1)),
              IsOkAndHolds(HasTensor(IsFilledWith(2))));
  // Nobody has heard of the other one.
  EXPECT_THAT(Pull("k", SnapshotOf("s", 5)),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Pull("k", LatestSnapshot("s")),
              IsOkAndHolds(HasTensor(IsFilledWith(2))));
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply first,
                       Describe(LatestSnapshot("s")));
  EXPECT_EQ(first.keep_last(), 0);
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply again, Create(second));
  EXPECT_EQ(again.number(), 5);
  EXPECT_EQ(Summary().num_snapshots, 1);
}

TEST_F(NamedSnapshotsTest, ReadersThatWaitAreCountedByWhatTheyAskFor) {
  constexpr size_t kNumKeys = 2'000;
  const std::string key(1'000, 'k');
  ASSERT_OK(InitNow(store_, {.entries = {{key, Full({2}, 1)}}}));
  StatRequest stat;
  *stat.mutable_at() = SnapshotAtLeast("s", 1);
  PullRequest pull = {.at = SnapshotAtLeast("s", 2)};
  for (size_t i = 0; i < kNumKeys; ++i) {
    stat.add_keys(key);
    pull.entries.push_back({key});
  }
  const uint64_t before = Summary().memory.metadata;
  const Answer<absl::StatusOr<StatReply>> told;
  store_.Stat(stat, {}, [told](auto reply) { told.Set(std::move(reply)); });
  EXPECT_GE(Summary().memory.metadata, before + kNumKeys * key.size());
  const Answer<absl::StatusOr<PullReply>> pulled;
  store_.Pull(pull, {}, [pulled](auto reply) { pulled.Set(std::move(reply)); });
  EXPECT_GE(Summary().memory.metadata, before + 2 * kNumKeys * key.size());

  ASSERT_OK(Create(CreateOf("s")));
  ASSERT_OK_AND_ASSIGN(const StatReply reply, told.Wait());
  EXPECT_THAT(reply.keys(), SizeIs(kNumKeys));
  ASSERT_OK(Create(CreateOf("s")));
  ASSERT_OK_AND_ASSIGN(const PullReply values, pulled.Wait());
  EXPECT_THAT(values.values, SizeIs(kNumKeys));
}

TEST_F(NamedSnapshotsTest, HasItsKeysWhenTheyHaveGoneToAnotherServer) {
  // They go, and the home of their namespace stays.
  const uint32_t partition = 1 - PartitionOf("default", "", 2);
  const auto key_of = [partition](std::string name) {
    while (PartitionOf("default", name, 2) != partition) name += "k";
    return name;
  };
  const std::string k = key_of("k");
  const std::string later = key_of("later");
  ASSERT_OK(InitNow(store_, {.entries = {{k, Full({2}, 1)}}}));
  ASSERT_OK(Create(CreateOf("s")));
  ASSERT_OK(InitNow(store_, {.entries = {{later, Full({2}, 1)}}}));
  ASSERT_OK(store_.Fence({.num_partitions = 2, .partitions = {partition}},
                         [] { return absl::OkStatus(); }));
  store_.GiveAway();
  const auto stat = [this](const std::string& key) {
    StatRequest request;
    request.add_keys(key);
    request.set_compute_digests(true);
    *request.mutable_at() = LatestSnapshot("s");
    return Await<StatReply>(
        [&](auto done) { store_.Stat(request, {}, std::move(done)); });
  };

  EXPECT_THAT(Pull(k, LatestSnapshot("s")),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_OK(stat(k));
  EXPECT_THAT(Pull(later, LatestSnapshot("s")).status(),
              HasReason(Reason::kWrongServer));
  EXPECT_THAT(stat(later).status(), HasReason(Reason::kWrongServer));
}

TEST_F(NamedSnapshotsTest, IsListedInPagesOfBoundedWork) {
  constexpr int kNumKeys = 20'000;
  const auto init = [this](int from, int to) {
    InitRequest request;
    for (int i = from; i < to; ++i) {
      request.entries.push_back({absl::StrCat("k", 100'000 + i), Full({1}, 1)});
    }
    ASSERT_OK(InitNow(store_, std::move(request)));
  };
  init(0, 1);
  init(kNumKeys, kNumKeys + 1);
  ASSERT_OK(Create(CreateOf("before")));
  init(1, kNumKeys);
  CreateSnapshotRequest some = CreateOf("some");
  for (const char* prefix : {"k1", "k100000", "k10001", "k11"}) {
    some.add_prefixes(prefix);
  }
  ASSERT_OK(Create(some));
  some.set_series("few");
  some.mutable_prefixes()->DeleteSubrange(0, 1);
  ASSERT_OK(Create(some));
  const auto list = [this](const std::string& series, const char* prefix) {
    ListRequest request;
    request.set_prefix(prefix);
    request.set_page_size(10'000);
    *request.mutable_at() = LatestSnapshot(series);
    std::vector<std::string> names;
    do {
      num_looks = 0;
      const absl::StatusOr<ListReply> page = store_.List(request);
      EXPECT_OK(page.status());
      EXPECT_LE(num_looks, 17'000);
      for (const KeyStatus& key : page->keys()) names.push_back(key.key());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    return names;
  };

  EXPECT_THAT(list("before", ""), ElementsAre("k100000", "k120000"));
  EXPECT_THAT(list("some", ""), SizeIs(kNumKeys + 1));
  EXPECT_THAT(list("few", "k10000"), ElementsAre("k100000"));
  // It begins where the snapshot has keys.
  EXPECT_THAT(list("few", ""), SizeIs(1 + 10 + 10'000));
  EXPECT_THAT(list("few", "k12"), IsEmpty());
  EXPECT_EQ(num_looks, 0);
}

TEST_F(NamedSnapshotsTest, AreToldInPiecesHoweverMuchThereIsOfThem) {
  constexpr int kNumSnapshots = 300;
  constexpr int kNumLeases = 150;
  CreateSnapshotRequest create = CreateOf("s");
  (*create.mutable_metadata())["text"] = std::string(4'000, 'm');
  for (int i = 0; i < kNumSnapshots; ++i) ASSERT_OK(Create(create));
  // More series than one locking looks at.
  for (int i = 0; i < 1'500; ++i) {
    ASSERT_OK(Create(CreateOf(absl::StrCat("t", i))));
  }
  ListSnapshotsRequest list;
  list.set_page_size(1'000);
  std::set<std::pair<std::string, uint64_t>> told;
  int num_pages = 0;
  do {
    ASSERT_OK_AND_ASSIGN(const ListSnapshotsReply page,
                         Await<ListSnapshotsReply>([&](auto done) {
                           store_.ListSnapshots(list, {}, std::move(done));
                         }));
    ++num_pages;
    EXPECT_LE(page.ByteSizeLong(), (1 << 20) + 8'000);
    for (const v1::SnapshotStatus& each : page.snapshots()) {
      EXPECT_TRUE(told.emplace(each.series(), each.number()).second);
    }
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  EXPECT_THAT(told, SizeIs(kNumSnapshots + 1'500));
  EXPECT_EQ(num_pages, 3);

  for (int i = 0; i < kNumLeases; ++i) {
    ASSERT_OK(Lease(SnapshotOf("s", 1), absl::Seconds(100),
                    absl::StrCat("lease", i)));
  }
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply described,
                       Describe(SnapshotOf("s", 1)));
  EXPECT_THAT(described.leases(), SizeIs(100));
  EXPECT_EQ(described.snapshot().num_leases(), kNumLeases);
}

TEST_F(NamedSnapshotsTest, AWriterLooksAtOneHoweverManyThereAre) {
  ASSERT_OK(InitNow(store_, {.entries = {{"k", Full({2}, 1)}}}));
  for (int i = 0; i < 10'000; ++i) ASSERT_OK(Create(CreateOf("s")));
  num_looks = 0;

  ASSERT_OK(Push("k", Full({2}, 2)));

  EXPECT_LE(num_looks, 8);
  EXPECT_THAT(Pull("k", SnapshotOf("s", 5'000)),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
  // One former value for all of them.
  EXPECT_THAT(store_.Summaries(), SizeIs(1));
  DeleteSnapshotRequest all;
  all.set_series("s");
  num_looks = 0;
  ASSERT_OK(Await<DeleteSnapshotReply>(
      [&](auto done) { store_.DeleteSnapshot(all, {}, std::move(done)); }));
  EXPECT_LE(num_looks, 10 * 10'000);
}

// Whether the same keys change between any two of them, or others.
TEST_F(NamedSnapshotsTest, RetainOfAModelWhatHasChangedBetweenThem) {
  constexpr int kNumKeys = 100;
  constexpr int kNumChanged = 10;
  constexpr int kNumSnapshots = 8;
  constexpr int64_t kElements = 4096;
  constexpr uint64_t kChangedBytes = kNumChanged * kElements * sizeof(float);
  for (const int first_step : {0, kNumChanged}) {
    const std::string model = absl::StrCat("model", first_step, "/");
    InitRequest init;
    for (int i = 0; i < kNumKeys; ++i) {
      init.entries.push_back({absl::StrCat(model, i), Full({kElements}, 0)});
    }
    ASSERT_OK(InitNow(store_, std::move(init)));
    const uint64_t before = Summary().memory.retained;

    for (int i = 0; i < kNumSnapshots; ++i) {
      ASSERT_OK(Create(CreateOf(model)));
      PushRequest push;
      for (int j = 0; j < kNumChanged; ++j) {
        push.entries.push_back({.key = absl::StrCat(model, i * first_step + j),
                                .tensor = Full({kElements}, i + 1)});
      }
      ASSERT_OK(Push(std::move(push)));
    }

    const uint64_t retained = Summary().memory.retained - before;
    EXPECT_GE(retained, kNumSnapshots * kChangedBytes);
    EXPECT_LE(retained, kNumSnapshots * (kChangedBytes + kChangedBytes / 20));
    for (int i = 0; i < kNumSnapshots; ++i) {
      const int value = first_step == 0 ? i : 0;
      EXPECT_THAT(
          Pull(absl::StrCat(model, i * first_step), SnapshotOf(model, i + 1)),
          IsOkAndHolds(HasTensor(IsFilledWith(value))));
    }
  }
}

TEST_F(NamedSnapshotsTest, AWriterLooksAtNoLeases) {
  ASSERT_OK(InitNow(store_, {.entries = {{"k", Full({2}, 1)}}}));
  ASSERT_OK(Create(CreateOf("s")));
  for (int i = 0; i < 1024; ++i) {
    ASSERT_OK(
        Lease(SnapshotOf("s", 1), absl::Seconds(100), absl::StrCat("l", i)));
  }
  num_looks = 0;

  ASSERT_OK(Push("k", Full({2}, 2)));

  EXPECT_LE(num_looks, 8);
  EXPECT_THAT(Lease(SnapshotOf("s", 1), absl::Seconds(100), "one more"),
              HasReason(Reason::kLimitReached));
}

TEST_F(NamedSnapshotsTest, ThoseThatASeriesDoesNotKeepGoFewAtATime) {
  for (int i = 0; i < 1000; ++i) ASSERT_OK(Create(CreateOf("s")));
  CreateSnapshotRequest create = CreateOf("s");
  create.set_keep_last(1);
  num_looks = 0;

  ASSERT_OK(Create(create));

  EXPECT_LE(num_looks, 32);
  while (Summary().num_snapshots > 1) std::this_thread::yield();
}

TEST_F(NamedSnapshotsTest, LeasedOnesThatASeriesDoesNotKeepAreLookedAtOnce) {
  CreateSnapshotRequest create = CreateOf("s");
  create.set_keep_last(1);
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_OK(Create(create));
    ASSERT_OK(Lease(SnapshotOf("s", i), absl::Seconds(100)));
  }
  ASSERT_OK(Create(create));
  num_looks = 0;

  ASSERT_OK(Create(create));

  EXPECT_LE(num_looks, 16);
  EXPECT_EQ(Summary().num_snapshots, 1001);
  ASSERT_OK(Lease(SnapshotOf("s", 1), absl::ZeroDuration()));
  EXPECT_EQ(Summary().num_snapshots, 1000);
  alarms_.Advance(absl::Seconds(101));
  while (Summary().num_snapshots > 1) std::this_thread::yield();
}

TEST_F(NamedSnapshotsTest, ManyEndAtATime) {
  CreateSnapshotRequest create = CreateOf("s");
  create.mutable_time_to_live()->set_seconds(60);
  for (int i = 0; i < 100; ++i) ASSERT_OK(Create(create));

  alarms_.Advance(absl::Seconds(61));

  EXPECT_EQ(Summary().num_snapshots, 0);
}

TEST_F(NamedSnapshotsTest, ADeleteOfASeriesEndsWithItsTime) {
  ASSERT_OK(Create(CreateOf("s")));
  DeleteSnapshotRequest all;
  all.set_series("s");
  const CallContext late = {.timeout = absl::ZeroDuration()};

  EXPECT_THAT(Await<DeleteSnapshotReply>([&](auto done) {
                store_.DeleteSnapshot(all, late, std::move(done));
              }),
              StatusIs(absl::StatusCode::kDeadlineExceeded));

  EXPECT_EQ(Summary().num_snapshots, 1);
}

// LoRA adapters: many small series, each with keys of its own.
TEST_F(NamedSnapshotsTest, ManySmallSeriesCostWhatTheyHold) {
  constexpr int kNumSeries = 10'000;
  constexpr int kNumKeys = 4;
  const auto prefix = [](int i) {
    return absl::StrCat("lora/", 10'000 + i, "/");
  };
  for (int i = 0; i < kNumSeries; ++i) {
    InitRequest init;
    for (int key = 0; key < kNumKeys; ++key) {
      init.entries.push_back({absl::StrCat(prefix(i), key), Full({64}, 1)});
    }
    ASSERT_OK(InitNow(store_, std::move(init)));
  }
  const uint64_t before = Summary().memory.retained;
  for (int i = 0; i < kNumSeries; ++i) {
    CreateSnapshotRequest create = CreateOf(prefix(i));
    create.add_prefixes(prefix(i));
    num_looks = 0;
    ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply reply, Create(create));
    EXPECT_LE(num_looks, 16);
    EXPECT_EQ(reply.num_keys(), kNumKeys);
  }
  const uint64_t unchanged = Summary().memory.retained;
  // About 3 KiB for each series with its snapshot.
  EXPECT_LE((unchanged - before) / kNumSeries, 4096);

  for (int i = 0; i < kNumSeries; i += 100) {
    num_looks = 0;
    ASSERT_OK(Push(absl::StrCat(prefix(i), 0), Full({64}, 2)));
    EXPECT_LE(num_looks, 8);
    ASSERT_OK(Push(absl::StrCat(prefix(i), 0), Full({64}, 3)));
  }
  // One former value for each of the keys: that which the snapshot has.
  const uint64_t changed = Summary().memory.retained - unchanged;
  EXPECT_GE(changed, 100 * 64 * sizeof(float));
  EXPECT_LE(changed, 100 * (64 * sizeof(float) + 512));
  EXPECT_THAT(Pull(absl::StrCat(prefix(100), 0), LatestSnapshot(prefix(100))),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
  testing::KeptSnapshot kept;
  ASSERT_OK(store_.TakeSnapshot({}, kept));
  EXPECT_THAT(kept.namespaces[0].series, SizeIs(kNumSeries));
  EXPECT_THAT(kept.namespaces[0].series, Contains(Pair(prefix(9'999), 1)));
}

class SmallServerTest : public NamedSnapshotsTest {
 protected:
  SmallServerTest()
      : NamedSnapshotsTest({.budget_bytes = 1 << 17, .max_retained_bytes = 0}) {
  }
};

TEST_F(SmallServerTest, LeasesCountAsRetained) {
  ASSERT_OK(InitNow(store_, {.entries = {{"k", Full({2}, 1)}}}));
  ASSERT_OK(Create(CreateOf("s")));
  absl::Status status;
  for (int i = 0; i < 1024 && status.ok(); ++i) {
    status =
        Lease(SnapshotOf("s", 1), absl::Seconds(100), absl::StrCat("l", i));
  }
  EXPECT_THAT(status, HasReason(Reason::kOverBudget));
  EXPECT_OK(Lease(SnapshotOf("s", 1), absl::Seconds(200), "l0"));
}

// Four keys of 1 MiB, of which rows are pushed; snapshots may have nine values.
class FullServerTest : public NamedSnapshotsTest {
 protected:
  static constexpr int64_t kElements = 1 << 18;
  static constexpr uint64_t kBytes = kElements * sizeof(float);

  FullServerTest()
      : NamedSnapshotsTest({.budget_bytes = 4 * kBytes + (256 << 10),
                            .max_retained_bytes = 9 * kBytes}) {
    EXPECT_OK(
        testing::MakeNow(store_, testing::SetRuleOf("sgd", "*", "default")));
    for (const std::string key : {"a", "b", "c", "d"}) {
      EXPECT_OK(InitNow(store_, {.entries = {{key, Full({kElements}, 1)}}}));
      rows_.entries.push_back(
          {.key = key,
           .tensor = Full({1}, 1),
           .rows = *RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 0))});
    }
  }

  PushRequest rows_;
};

// What goes is in use until the change has ended.
TEST_F(FullServerTest, AChangeOfManyKeysLetsNoMoreGoThanItMust) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(Create(CreateOf("s")));
    ASSERT_OK(Push(rows_));
  }

  EXPECT_THAT(Pull("a", SnapshotOf("s", 1)).status(),
              HasReasonAbout(Reason::kSnapshotLost,
                             Contains(Pair("cause", "retained"))));
  for (const int number : {2, 3}) {
    EXPECT_OK(Pull("a", SnapshotOf("s", number)).status()) << number;
  }
}

TEST_F(FullServerTest, OnesThatHoldNothingStayWhereThatWouldNotHelp) {
  std::vector<Value> read;
  for (int i = 1; i <= 3; ++i) {
    ASSERT_OK(Create(CreateOf("s")));
    ASSERT_OK(Push(rows_));
    for (const std::string key : {"a", "b", "c", "d"}) {
      ASSERT_OK_AND_ASSIGN(Value value, Pull(key, SnapshotOf("s", i)));
      read.push_back(std::move(value));
    }
  }
  ASSERT_OK(Create(CreateOf("s")));

  EXPECT_THAT(Create(CreateOf("s")), HasReason(Reason::kOverBudget));

  EXPECT_OK(Pull("a", SnapshotOf("s", 4)).status());
  // A change that needs room for the value goes on without them.
  ASSERT_OK(Push(rows_));
  EXPECT_THAT(Pull("a", SnapshotOf("s", 4)).status(),
              HasReason(Reason::kSnapshotLost));
  read.clear();
  EXPECT_OK(Create(CreateOf("s")));
}

TEST_F(FullServerTest, SeriesCountAgainstTheBudget) {
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = Create(CreateOf(absl::StrCat("s", i))).status();
  }
  EXPECT_THAT(status, HasReason(Reason::kOverBudget));
}

}  // namespace
}  // namespace tensorkv
