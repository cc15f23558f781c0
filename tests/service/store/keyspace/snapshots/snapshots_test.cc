// What a snapshot has, whatever happens while it is taken.

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/task_pool.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/workers/worker_group.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/snapshot.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/keyspace/snapshots/kept_snapshot.h"
#include "tests/testing/background.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::KeptSnapshot;
using ::tensorkv::testing::SnapshotsTest;
using ::tensorkv::testing::StatusIs;
using ::testing::_;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// A contribution to an open round has the states of its key copied, but brings
// no update whose end the next one would see. The copy is behind updates that
// are held.
TEST_F(SnapshotsTest, OneThatFailsWhileStatesAreCopiedDoesNotStopTheNext) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 2});
  SetRule("s", "adam", "k");
  Init("s", "k", kMany);
  BeginPush(SyncPushOf(0, 1, "k", kMany));
  BeginPush(SyncPushOf(1, 1, "k", kMany));
  AwaitVersion("s", "k", 2);
  std::vector<std::string> held;
  for (size_t i = 0; i < TaskPool::DefaultNumThreads(); ++i) {
    held.push_back(absl::StrCat("held", i));
    Init("s", held.back(), kMany);
  }
  backend_.Hold();
  for (const std::string& key : held) {
    BeginPush(SyncPushOf(0, 1, key, kMany));
    BeginPush(SyncPushOf(1, 1, key, kMany));
  }
  Notification is_begun;
  KeptSnapshot failing([&](const NamespaceSnapshot&) {
    BeginPush(SyncPushOf(0, 2, "k", kMany));
    is_begun.Notify();
    return absl::DataLossError("the disk is gone");
  });
  KeptSnapshot next;

  Background failed([&] { return store_.TakeSnapshot({"s"}, failing); });
  is_begun.WaitForNotification();
  Background taken([&] { return store_.TakeSnapshot({"s"}, next); });
  backend_.Release();

  EXPECT_THAT(failed.Result(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_OK(taken.Result());
  EXPECT_EQ(next.keys.size(), 1 + held.size());
}

// Each is opened while those before it are open, and ends before them.
TEST_F(SnapshotsTest, SeveralAtOnceHaveEachItsOwnMoment) {
  constexpr int kSnapshots = 20;
  CreateNamespace("n");
  SetRule("n", "adam");
  Init("n", "k");
  Init("n", "replaced");
  std::vector<std::pair<Version, uint64_t>> taken(kSnapshots);
  std::function<absl::Status(int)> take = [&](int i) {
    if (i == kSnapshots) return absl::OkStatus();
    KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
      EXPECT_OK(PushTo(store_, "k").Wait().status());
      Replace("n", "replaced", 4 + i);
      return take(i + 1);
    });
    RETURN_IF_ERROR(store_.TakeSnapshot({"n"}, snapshot));
    EXPECT_EQ(snapshot.keys.size(), 2u);
    for (const KeySnapshot& key : snapshot.keys) {
      if (key.key == "replaced") {
        EXPECT_EQ(key.value.num_elements(), i == 0 ? 4 : 3 + i);
        continue;
      }
      EXPECT_EQ(key.states.size(), i == 0 ? 0u : 2u);
      taken[i] = {key.version, key.update_count};
    }
    return absl::OkStatus();
  };

  ASSERT_OK(take(0));

  for (int i = 0; i < kSnapshots; ++i) {
    EXPECT_THAT(taken[i], Pair(1 + i, i));
  }
}

TEST_F(SnapshotsTest, StatesAreThoseOfItsMoment) {
  CreateNamespace("n");
  SetRule("n", "nag(learning_rate=1, momentum=0.5)");
  Init("n", "k");
  ASSERT_OK(PushTo(store_, "k").Wait().status());
  KeptSnapshot second([&](const NamespaceSnapshot&) {
    return PushTo(store_, "k").Wait().status();
  });
  KeptSnapshot first([&](const NamespaceSnapshot&) {
    EXPECT_OK(PushTo(store_, "k").Wait().status());
    return store_.TakeSnapshot({"n"}, second);
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, first));

  const auto momentum = [](const KeptSnapshot& snapshot) {
    return snapshot.keys[0].states[0].tensor.elements<float>()[0];
  };
  EXPECT_EQ(std::abs(momentum(first)), 1);
  EXPECT_EQ(std::abs(momentum(second)), 1.5);
}

TEST_F(SnapshotsTest, KeysThatGoWhileTheirUpdatesWaitAreInItAfterThese) {
  CreateNamespace("n");
  SetRule("n", "adam");
  for (const std::string key : {"deleted", "replaced"}) {
    Init("n", key, kMany);
    BeginPush(PushOf("n", key, kMany));
    AwaitVersion("n", key, 2);
  }
  backend_.Hold();
  for (const std::string key : {"deleted", "replaced"}) {
    BeginPush(PushOf("n", key, kMany));
    BeginPush(PushOf("n", key, kMany));
  }
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    for (const std::string key : {"deleted", "replaced"}) {
      BeginPush(PushOf("n", key, kMany));
    }
    EXPECT_OK(testing::MakeNow(store_, testing::DeleteOf({"deleted"}, "n")));
    backend_.Release();
    Replace("n", "replaced", 1);
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_EQ(snapshot.keys.size(), 2u);
  for (const KeySnapshot& key : snapshot.keys) {
    EXPECT_EQ(key.value.num_elements(), kMany) << key.key;
    EXPECT_EQ(key.version, 4u) << key.key;
    EXPECT_EQ(key.update_count, 3u) << key.key;
    EXPECT_EQ(key.states.size(), 2u) << key.key;
  }
}

TEST_F(SnapshotsTest, UpdateThatFailsLeavesTheKeyInItAndInTheNext) {
  CreateNamespace("n");
  SetRule("n", "adam");
  Init("n", "k");
  ASSERT_OK(PushTo(store_, "k").Wait().status());
  KeptSnapshot next;
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    backend_.FailApply(absl::InternalError("it fails"));
    EXPECT_THAT(PushTo(store_, "k").Wait(),
                StatusIs(absl::StatusCode::kInternal));
    backend_.FailApply(absl::OkStatus());
    EXPECT_OK(store_.TakeSnapshot({"n"}, next));
    return PushTo(store_, "k").Wait().status();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  for (const KeptSnapshot* each :
       {&std::as_const(snapshot), &std::as_const(next)}) {
    ASSERT_EQ(each->keys.size(), 1u);
    EXPECT_EQ(each->keys[0].version, 2u);
    EXPECT_EQ(each->keys[0].update_count, 1u);
    EXPECT_EQ(each->keys[0].states.size(), 2u);
  }
}

// Its contributions are not in the value, and whoever goes on from the snapshot
// has brought them, be it that nobody owes them by now.
TEST_F(SnapshotsTest, RoundThatFailsAndIsClearedBeforeTheWalkIsLeftBehind) {
  CreateNamespace("s", {.mode = Mode::kSync,
                        .num_workers = 1,
                        .max_workers = 2,
                        .on_worker_loss = OnWorkerLoss::kContinue});
  Init("s", "k", kMany);
  std::vector<Worker> workers;
  for (const char* const name : {"a", "b"}) {
    workers.push_back(WorkerOf(
        testing::MakeNow(store_, testing::JoinOf("s", name, absl::Minutes(1)))
            ->worker()));
  }
  backend_.Hold();
  for (const Worker& worker : workers) {
    PushRequest push = PushOf("s", "k", kMany);
    push.worker = worker;
    push.step = 1;
    BeginPush(std::move(push));
  }
  backend_.WaitUntilHeld();
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    backend_.FailApply(absl::InternalError("it fails"));
    backend_.Release();
    EXPECT_THAT(
        PullOf(store_,
               {.name_space = "s", .worker = workers[0], .entries = {{"k"}}}),
        HasReason(Reason::kRoundFailed));
    for (const Worker& worker : workers) {
      EXPECT_OK(testing::MakeNow(
          store_, testing::RequestOfMember<LeaveRequest>("s", worker)));
    }
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"s"}, snapshot));

  ASSERT_EQ(snapshot.keys.size(), 1u);
  EXPECT_EQ(snapshot.keys[0].version, 1u);
  EXPECT_THAT(snapshot.keys[0].rounds, IsEmpty());
  EXPECT_EQ(snapshot.keys[0].first_unsaved, 1u);
}

// The snapshot has the key, with a round that was to be in its value.
TEST_F(SnapshotsTest, RoundThatFailsAfterItsKeyWasDeletedFailsTheSnapshot) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 1});
  Init("s", "k", kMany);
  backend_.Hold();
  BeginPush(SyncPushOf(0, 1, "k", kMany));
  backend_.WaitUntilHeld();
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    EXPECT_OK(testing::MakeNow(store_, testing::DeleteOf({"k"}, "s")));
    backend_.FailApply(absl::InternalError("it fails"));
    backend_.Release();
    return absl::OkStatus();
  });

  EXPECT_THAT(store_.TakeSnapshot({"s"}, snapshot),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("it fails")));
}

TEST_F(SnapshotsTest, ChangesOfRulesDoNotReachThoseThatWereOpen) {
  CreateNamespace("n");
  SetRule("n", "adam");
  Init("n", "k", kMany);
  BeginPush(PushOf("n", "k", kMany));
  AwaitVersion("n", "k", 2);
  backend_.Hold();
  BeginPush(PushOf("n", "k", kMany));
  backend_.WaitUntilHeld();
  KeptSnapshot second([&](const NamespaceSnapshot&) {
    SetRule("n", "sgd");
    BeginPush(PushOf("n", "k", kMany));
    backend_.Release();
    return absl::OkStatus();
  });
  KeptSnapshot first([&](const NamespaceSnapshot&) {
    SetRule("n", "nag");
    BeginPush(PushOf("n", "k", kMany));
    return store_.TakeSnapshot({"n"}, second);
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, first));

  ASSERT_EQ(first.keys.size(), 1u);
  EXPECT_EQ(first.keys[0].version, 3u);
  EXPECT_EQ(first.keys[0].update_count, 2u);
  EXPECT_EQ(first.keys[0].states.size(), 2u) << "adam's";
  ASSERT_EQ(second.keys.size(), 1u);
  EXPECT_EQ(second.namespaces[0].rules[0].rule.name, "nag");
  EXPECT_EQ(second.keys[0].version, 4u);
  EXPECT_EQ(second.keys[0].update_count, 0u)
      << "what waits is computed with the rule that comes";
}

// What a worker has contributed after the moment of a snapshot is not known to
// it, be the round open, closed, or skipped by all.
TEST_F(SnapshotsTest, RoundsAreThoseOfItsMoment) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 2});
  Init("s", "k");
  const auto push = [this](uint32_t rank, Step step, bool skip = false) {
    PushRequest request = SyncPushOf(rank, step, "k", 4);
    request.entries[0].skip = skip;
    if (skip) request.entries[0].tensor = Tensor();
    EXPECT_OK(PushTo(store_, std::move(request)).Wait().status());
  };
  KeptSnapshot closed([&](const NamespaceSnapshot&) {
    push(0, 2, /*skip=*/true);
    push(1, 2, /*skip=*/true);
    return absl::OkStatus();
  });
  KeptSnapshot open([&](const NamespaceSnapshot&) {
    push(1, 1);
    return store_.TakeSnapshot({"s"}, closed);
  });
  KeptSnapshot empty([&](const NamespaceSnapshot&) {
    push(0, 1);
    return store_.TakeSnapshot({"s"}, open);
  });

  ASSERT_OK(store_.TakeSnapshot({"s"}, empty));

  EXPECT_EQ(empty.keys[0].first_unsaved, UINT64_MAX);
  EXPECT_THAT(empty.keys[0].rounds, IsEmpty());
  EXPECT_EQ(open.keys[0].first_unsaved, 1u);
  EXPECT_THAT(open.keys[0].rounds, IsEmpty());
  EXPECT_EQ(closed.keys[0].first_unsaved, UINT64_MAX);
  EXPECT_THAT(closed.keys[0].rounds, SizeIs(1));
}

// What waits to be carried is not in it, and what was carried is known.
TEST_F(SnapshotsTest, LateContributionsAreThoseOfItsMoment) {
  CreateNamespace("s", {.mode = Mode::kSync,
                        .num_workers = 3,
                        .quorum = 2,
                        .late = Late::kCarry});
  Init("s", "k");
  const auto push = [this](uint32_t rank, Step step) {
    EXPECT_OK(PushTo(store_, SyncPushOf(rank, step, "k", 4)).Wait().status());
  };
  push(0, 1);
  push(1, 1);
  AwaitVersion("s", "k", 2);
  push(2, 1);
  KeptSnapshot waiting([&](const NamespaceSnapshot&) {
    push(0, 2);
    push(1, 2);
    AwaitVersion("s", "k", 3);
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"s"}, waiting));
  KeptSnapshot carried;
  ASSERT_OK(store_.TakeSnapshot({"s"}, carried));

  EXPECT_EQ(waiting.keys[0].first_unsaved, 1u);
  EXPECT_THAT(waiting.keys[0].rounds[0].late, IsEmpty());
  EXPECT_EQ(carried.keys[0].first_unsaved, UINT64_MAX);
  ASSERT_THAT(carried.keys[0].rounds[0].late, SizeIs(1));
  EXPECT_EQ(carried.keys[0].rounds[0].late[0].by.rank, 2u);
  EXPECT_EQ(carried.keys[0].rounds[0].late[0].taken_by, 2u);
}

TEST_F(SnapshotsTest, ContributionsOfBoundedModeAreThoseOfItsMoment) {
  CreateNamespace("n",
                  {.mode = Mode::kBounded, .num_workers = 1, .staleness = 1});
  Init("n", "k");
  const Worker worker;
  ASSERT_OK(PushTo(store_, "k", /*step=*/1, &worker).Wait().status());
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    return PushTo(store_, "k", /*step=*/2, &worker).Wait().status();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  ASSERT_THAT(snapshot.keys[0].contributions, SizeIs(1));
  EXPECT_EQ(snapshot.keys[0].contributions[0].step, 1u);
  EXPECT_EQ(snapshot.keys[0].version, 2u);
}

TEST_F(SnapshotsTest, WorkersThatNoGroupHasAreRefused) {
  const std::vector<uint32_t> wrong[] = {{kMaxWorkers}, {1, 0}, {0, 0}};
  for (const std::vector<uint32_t>& ranks : wrong) {
    NamespaceSnapshot snapshot = {.name = "restored"};
    for (const uint32_t rank : ranks) {
      snapshot.workers.push_back({.worker = {.rank = rank}, .step = 1});
    }
    const auto is_refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("expected a rank above"));

    EXPECT_THAT(store_.StartRestoration(OnExisting::kFail)->Begin(snapshot),
                is_refused);
    snapshot.name = "default";
    snapshot.config = testing::ConfigOf(testing::Described(store_));
    snapshot.uid = testing::Described(store_).uid();
    EXPECT_THAT(store_.StartAdoption({})->Begin(snapshot), is_refused);
  }
}

TEST_F(SnapshotsTest, ARuleThatIsSetWhileItIsTakenIsNotInIt) {
  CreateNamespace("n");
  SetRule("n", "adam");
  Init("n", "idle");
  Init("n", "updating", kMany);
  BeginPush(PushOf("n", "idle"));
  AwaitVersion("n", "idle", 2);
  BeginPush(PushOf("n", "updating", kMany));
  AwaitVersion("n", "updating", 2);
  backend_.Hold();
  BeginPush(PushOf("n", "updating", kMany));
  backend_.WaitUntilHeld();
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    SetRule("n", "sgd");
    backend_.Release();
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  EXPECT_EQ(snapshot.namespaces[0].rules[0].rule.name, "adam");
  std::map<std::string, uint64_t> counts;
  for (const KeySnapshot& key : snapshot.keys) {
    counts[key.key] = key.update_count;
    EXPECT_EQ(key.states.size(), 2u) << key.key;
  }
  EXPECT_THAT(counts, ElementsAre(Pair("idle", 1), Pair("updating", 2)));
}

TEST_F(SnapshotsTest, OfCallsUnderWayOnlyContributionsAreNotInIt) {
  CreateNamespace("s", {.mode = Mode::kSync, .num_workers = 2});
  SetRule("s", "adam");
  Init("s", "k");
  PushRequest push = SyncPushOf(0, 1, "k", 4);
  push.call_id = CallId{"pusher", 1};
  BeginPush(std::move(push));
  KeptSnapshot snapshot;
  backend_.WhenAllocating(
      [&] { EXPECT_OK(store_.TakeSnapshot({"s"}, snapshot)); });
  InitRequest init = {.name_space = "s", .call_id = CallId{"maker", 1}};
  init.entries.push_back({"new", OnesOf(4)});

  ASSERT_OK(InitNow(store_, std::move(init)));

  std::map<std::string, size_t> num_calls;
  for (const ClientSnapshot& client : snapshot.namespaces[0].clients) {
    num_calls[client.client_id] = client.calls.size();
    for (const CallSnapshot& call : client.calls) {
      EXPECT_EQ(call.answer, nullptr);
    }
  }
  EXPECT_THAT(num_calls, ElementsAre(Pair("maker", 1), Pair("pusher", 0)));
}

TEST_F(SnapshotsTest, ANamespaceThatIsDeletedBeforeItIsDueIsNotInIt) {
  for (const std::string name : {"a", "deleted", "replaced"}) {
    CreateNamespace(name);
  }
  KeptSnapshot snapshot([&](const NamespaceSnapshot& name_space) {
    if (name_space.name != "a") return absl::OkStatus();
    EXPECT_OK(testing::MakeNow(store_, testing::RemoveOf("deleted")));
    EXPECT_OK(testing::MakeNow(store_, testing::RemoveOf("replaced")));
    CreateNamespace("replaced");
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({}, snapshot));

  std::map<std::string, uint64_t> uids;
  for (const NamespaceSnapshot& each : snapshot.namespaces) {
    uids[each.name] = each.uid;
  }
  EXPECT_THAT(uids,
              ElementsAre(Pair("a", _), Pair("default", _),
                          Pair("replaced",
                               testing::Described(store_, "replaced").uid())));
}

// Of keys that are not in it, or not any more, it keeps nothing.
TEST_F(SnapshotsTest, KeysThatGoWhileItIsTakenGiveTheirMemoryBack) {
  CreateNamespace("n");
  Init("n", "a");
  Init("n", "replaced", kMany);
  std::vector<uint64_t> used;
  KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    for (int i = 0; i < 20; ++i) {
      Init("n", "short-lived", kMany);
      Replace("n", "replaced", kMany);
      EXPECT_OK(
          testing::MakeNow(store_, testing::DeleteOf({"short-lived"}, "n")));
      used.push_back(store_.used_bytes());
    }
    return absl::OkStatus();
  });

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  EXPECT_THAT(used, Each(used.front()));
  std::vector<std::string> keys;
  for (const KeySnapshot& key : snapshot.keys) keys.push_back(key.key);
  EXPECT_THAT(keys, UnorderedElementsAre("a", "replaced"));
}

// Names before and behind those that the walk has come to.
TEST_F(SnapshotsTest, KeysThatComeAndGoBetweenItsTurnsAreNotInIt) {
  CreateNamespace("n");
  InitRequest many = {.name_space = "n"};
  for (int i = 0; i < 1000; ++i) {
    many.entries.push_back({absl::StrCat("k", 1000 + i), OnesOf(1)});
  }
  ASSERT_OK(InitNow(store_, std::move(many)));
  const uint64_t before = store_.used_bytes();
  int num_added = 0;
  KeptSnapshot snapshot;
  snapshot.on_add = [&] {
    if (++num_added % 100 != 0) return;
    Init("n", "a", kMany);
    Init("n", "z", kMany);
    EXPECT_OK(testing::MakeNow(store_, testing::DeleteOf({"a", "z"}, "n")));
  };

  ASSERT_OK(store_.TakeSnapshot({"n"}, snapshot));

  EXPECT_EQ(snapshot.keys.size(), 1000u);
  snapshot.keys.clear();
  EXPECT_EQ(store_.used_bytes(), before);
}

TEST_F(SnapshotsTest, NamespaceThatWasDeletedDoesNotComeBackByAMove) {
  CreateNamespace("n");
  Init("n", "k");
  const KeptSnapshot snapshot = Taken("n");
  const auto adoption = store_.StartAdoption({.num_partitions = 1});

  ASSERT_OK(testing::MakeNow(store_, testing::RemoveOf("n")));

  EXPECT_THAT(adoption->Begin(snapshot.namespaces[0]),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("deleted here")));
  EXPECT_THAT(store_.StartAdoption({.num_partitions = 1})
                  ->Begin(snapshot.namespaces[0]),
              StatusIs(absl::StatusCode::kAborted))
      << "other servers may have it still";
  CreateNamespace("n");
  EXPECT_THAT(adoption->Begin(snapshot.namespaces[0]),
              HasReason(Reason::kNamespaceReplaced))
      << "another is there";
}

TEST_F(SnapshotsTest, DeletesOfNoNamespaceDoNotLetADeletedOneComeBack) {
  CreateNamespace("n");
  const KeptSnapshot snapshot = Taken("n");
  const auto adoption = store_.StartAdoption({.num_partitions = 1});
  ASSERT_OK(testing::MakeNow(store_, testing::RemoveOf("n")));

  EXPECT_THAT(
      testing::MakeNow(store_, testing::RemoveOf(std::string(1 << 20, 'n'))),
      StatusIs(absl::StatusCode::kInvalidArgument));
  for (size_t i = 0; i <= RecentDeletes::kMaxNames; ++i) {
    EXPECT_THAT(
        testing::MakeNow(store_, testing::RemoveOf(absl::StrCat("none", i))),
        StatusIs(absl::StatusCode::kNotFound));
  }

  EXPECT_THAT(adoption->Begin(snapshot.namespaces[0]),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(SnapshotsTest, GroupWhoseWorkersAreAllLostDoesNotHoldUpAMove) {
  CreateNamespace("n", {.mode = Mode::kSync, .num_workers = 2});
  Init("n", "k");
  const auto join = [this](const std::string& name) {
    return WorkerOf(
        testing::MakeNow(
            store_, testing::JoinOf("n", name, absl::Seconds(10), /*rank=*/0))
            ->worker());
  };
  const auto lose = [this](const Worker& worker) {
    return testing::MakeNow(store_, testing::FailureOf("n", worker));
  };
  const Worker first = join("a");
  ASSERT_OK(PushTo(store_, "k", /*step=*/1, &first).Wait());
  ASSERT_OK(lose(first));
  // Has the step of the worker before it, and has not pushed itself.
  ASSERT_OK(lose(join("b")));

  EXPECT_OK(store_.Fence({.num_partitions = 1, .partitions = {0}}, [] {
    return absl::DeadlineExceededError("a round is open");
  }));
}

}  // namespace
}  // namespace tensorkv
