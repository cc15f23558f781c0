#include "service/checkpoint/checkpoints.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/cancellation.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/odd_names.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::CheckpointsTest;
using ::tensorkv::testing::Filled;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::PushOf;
using ::tensorkv::testing::Remove;
using ::tensorkv::testing::RestoreOf;
using ::tensorkv::testing::SaveAs;
using ::tensorkv::testing::SavedStore;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Verify;
using ::testing::ElementsAre;

// Namespaces with a key each, of all kinds of rules and dtypes.
class KeysOfManyRules {
 public:
  explicit KeysOfManyRules(SavedStore& saved) : saved_(saved) {}

  void Make() {
    for (int i = 0; i < kNumRules; ++i) {
      NamespaceConfig config;
      ASSERT_OK_AND_ASSIGN(config.rule, ParseRuleSpec(kRules[i].rule));
      ASSERT_OK(
          testing::MakeNow(saved_.store(), testing::CreateOf(Name(i), config)));
      ASSERT_OK(saved_.Init(Name(i), "k", Filled(kRules[i].dtype, 1)));
    }
  }
  void Push() {
    for (int i = 0; i < kNumRules; ++i) {
      ASSERT_OK(saved_.Push(PushOf(Name(i), "k", Filled(kRules[i].dtype, 1))));
    }
  }
  void ExpectSameAs(const KeysOfManyRules& other) const {
    for (int i = 0; i < kNumRules; ++i) {
      EXPECT_EQ(BytesOf(saved_.Pull(Name(i), "k")),
                BytesOf(other.saved_.Pull(Name(i), "k")))
          << kRules[i].rule;
      EXPECT_EQ(saved_.Stat(Name(i), "k").update_count(),
                other.saved_.Stat(Name(i), "k").update_count());
    }
  }

 private:
  struct RuleOfKey {
    const char* rule;
    DType dtype;
  };
  static constexpr RuleOfKey kRules[] = {
      {"assign", DType::kBool},
      {"accumulate", DType::kI64},
      {"adam(learning_rate=0.1)", DType::kF32},
      {"adam(learning_rate=0.1)", DType::kBF16},
      {"sgd(learning_rate=0.1, momentum=0.9)", DType::kF8E4M3FN},
      {"adafactor", DType::kBF16},
      {"average(initial_weight=4, rescale_grad=2)", DType::kF32},
      {"sgd(learning_rate=0.1, schedule=factor(factor=0.5, "
       "updates_per_step=2))",
       DType::kF64}};
  static constexpr int kNumRules = std::size(kRules);

  static std::string Name(int i) { return absl::StrCat("n", i); }

  SavedStore& saved_;
};

// The oracle is the store itself: what was restored must go on with the same
// bits as what was never saved.
TEST_F(CheckpointsTest, RestoredKeysGoOnWithTheSameBits) {
  SavedStore other(absl::StrCat(directory_, "/other"));
  KeysOfManyRules never_saved(other);
  SavedStore& before = Restart();
  KeysOfManyRules saved(before);
  for (KeysOfManyRules* keys : {&never_saved, &saved}) {
    keys->Make();
    keys->Push();
    keys->Push();
  }

  ASSERT_OK(before.checkpoints().Save());
  SavedStore& after = Restart();
  ASSERT_OK(after.checkpoints().RestoreLast());

  KeysOfManyRules restored(after);
  for (int more = 0; more < 3; ++more) {
    restored.ExpectSameAs(never_saved);
    restored.Push();
    never_saved.Push();
  }
}

// As keys, in a namespace of each name that one may have.
TEST_F(CheckpointsTest, EveryNameDTypeAndShapeComesBack) {
  const std::vector<std::string> keys = testing::OddNames(1024);
  const std::vector<std::string> namespaces = testing::OddNames(256, 20);
  SavedStore& before = Restart();
  for (const std::string& name : namespaces) {
    CreateNamespace(before, name,
                    {.rule = *ParseRuleSpec("sgd(momentum=0.9)")});
    ASSERT_OK(before.Init(name, name, Filled(DType::kF32, 1)));
  }
  InitRequest request;
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<int64_t> dimensions;
    for (size_t rank = i % 9; rank > 0; --rank) {
      dimensions.push_back((i + rank) % 3);
    }
    request.entries.push_back(
        {keys[i], Filled(kAllDTypes[i % std::size(kAllDTypes)], 1,
                         *Shape::Create(dimensions))});
  }
  const std::vector<InitEntry> entries = request.entries;
  ASSERT_OK(before.Init(std::move(request)));
  ASSERT_OK_AND_ASSIGN(const CheckpointStatus saved,
                       before.checkpoints().Save());
  EXPECT_OK(Verify(before.checkpoints(), saved.name()));

  SavedStore& after = Restart();
  ASSERT_OK(after.checkpoints().RestoreLast());

  for (const InitEntry& entry : entries) {
    const Value value = after.Pull("", entry.key);
    EXPECT_EQ(value.tensor.Description(), entry.tensor.Description());
    EXPECT_EQ(BytesOf(value), BytesOf(Value{1, entry.tensor})) << entry.key;
  }
  for (const std::string& name : namespaces) {
    EXPECT_EQ(after.Pull(name, name).tensor.dtype(), DType::kF32);
  }
}

TEST_F(CheckpointsTest, NamespacesRulesAndVersionsComeBack) {
  SavedStore& before = Restart();
  NamespaceConfig config;
  config.budget_bytes = 1 << 20;
  CreateNamespace(before, "n", config);
  ASSERT_OK(testing::MakeNow(
      before.store(),
      testing::UpdateOf(
          "n", {.budget_bytes = 2 << 20, .gradient_guard = {.max_norm = 9}},
          {"budget_bytes", "gradient_guard.max_norm"})));
  ASSERT_OK(testing::MakeNow(
      before.store(),
      testing::SetRuleOf("sgd(learning_rate=0.5)", "*.b", "n")));
  ASSERT_OK(
      testing::MakeNow(before.store(), testing::SetRuleOf("adam", "a.*", "n")));
  ASSERT_OK(testing::MakeNow(before.store(),
                             testing::SetMultipliersOf({2, 0}, "*.b", "n")));
  ASSERT_OK(before.Init("n", "a.b", Filled(DType::kF32, 1)));
  ASSERT_OK(before.Push(PushOf("n", "a.b", Filled(DType::kF32, 1))));
  const NamespaceStatus was = testing::Described(before.store(), "n");
  const KeyStatus key_was = before.Stat("n", "a.b");
  ASSERT_OK(before.checkpoints().Save());

  SavedStore& after = Restart();
  ASSERT_OK(after.checkpoints().RestoreLast());

  const NamespaceStatus is = testing::Described(after.store(), "n");
  EXPECT_EQ(is.uid(), was.uid());
  EXPECT_TRUE(testing::ConfigOf(is) == testing::ConfigOf(was));
  EXPECT_EQ(is.config().budget_bytes(), 2u << 20);
  EXPECT_EQ(is.config().gradient_guard().max_norm(), 9);
  EXPECT_GT(is.revision(), was.revision());
  EXPECT_EQ(is.rules().size(), was.rules().size());
  const KeyStatus key_is = after.Stat("n", "a.b");
  EXPECT_EQ(FromProto(key_is.rule()), FromProto(key_was.rule()));
  EXPECT_EQ(FromProto(key_is.multipliers()), FromProto(key_was.multipliers()));
  EXPECT_EQ(key_is.version(), key_was.version());
  const auto pushed = after.Push(PushOf("n", "a.b", Filled(DType::kF32, 1)));
  ASSERT_OK(pushed);
  EXPECT_GT(pushed->results[0].version, key_was.version() + 1000000);
  EXPECT_EQ(after.Stat("n", "a.b").version(), pushed->results[0].version);
}

JoinReply JoinAs(SavedStore& saved, const std::string& name) {
  return testing::MakeNow(saved.store(),
                          testing::JoinOf("s", name, absl::Minutes(10)))
      .value();
}

PushRequest StepOf(const Worker& worker, Step step, double element,
                   const std::string& key = "k") {
  PushRequest request = PushOf("s", key, Filled(DType::kF32, element));
  request.worker = worker;
  request.step = step;
  return request;
}

TEST_F(CheckpointsTest,
       AStepThatHasClosedIsRecognisedAndAnOpenOneIsPushedAgain) {
  SavedStore& before = Restart();
  CreateNamespace(before, "s", {.mode = Mode::kSync, .num_workers = 2});
  ASSERT_OK(before.Init("s", "k", Filled(DType::kF32, 0)));
  Worker a = WorkerOf(JoinAs(before, "a").worker());
  Worker b = WorkerOf(JoinAs(before, "b").worker());
  ASSERT_OK(before.Push(StepOf(a, 1, 1)));
  ASSERT_OK(before.Push(StepOf(b, 1, 2)));
  // Ahead by two steps.
  ASSERT_OK(before.Push(StepOf(b, 2, 2)));
  ASSERT_OK(before.Push(StepOf(b, 3, 2)));
  ASSERT_OK(before.checkpoints().Save());

  SavedStore& after = Restart();
  ASSERT_OK(after.checkpoints().RestoreLast());

  EXPECT_THAT(after.Push(StepOf(a, 2, 1)), HasReason(Reason::kLeaseLost));
  // In another order than before.
  const JoinReply second = JoinAs(after, "b");
  const JoinReply first = JoinAs(after, "a");
  EXPECT_EQ(first.worker().rank(), a.rank);
  EXPECT_EQ(first.next_step(), 1u);
  EXPECT_EQ(second.worker().rank(), b.rank);
  EXPECT_EQ(second.next_step(), 2u);
  a = WorkerOf(first.worker());
  b = WorkerOf(second.worker());
  const auto repeated = after.Push(StepOf(a, 1, 1));
  ASSERT_OK(repeated);
  EXPECT_TRUE(repeated->results[0].repeated);
  ASSERT_OK(after.Push(StepOf(a, 2, 1)));
  EXPECT_EQ(after.Pull("s", "k").tensor.elements<float>()[0], 3);
  const auto again = after.Push(StepOf(b, 2, 2));
  ASSERT_OK(again);
  EXPECT_FALSE(again->results[0].repeated);
}

// One of its keys is not pushed in every step.
TEST_F(CheckpointsTest, AGroupGoesBackToTheFirstStepThatLacksAnything) {
  SavedStore* saved = &Restart();
  CreateNamespace(*saved, "s", {.mode = Mode::kSync, .num_workers = 2});
  for (const std::string key : {"always", "rare"}) {
    ASSERT_OK(saved->Init("s", key, Filled(DType::kF32, 0)));
  }
  std::vector<Worker> workers(2);
  std::vector<Step> next_steps(2);
  const auto join = [&] {
    for (const std::string name : {"a", "b"}) {
      const JoinReply joined = JoinAs(*saved, name);
      workers[joined.worker().rank()] = WorkerOf(joined.worker());
      next_steps[joined.worker().rank()] = joined.next_step();
    }
  };
  const auto push = [&](uint32_t rank, const std::string& key, Step step) {
    ASSERT_OK(saved->Push(
        StepOf(workers[rank], step, static_cast<double>(step), key)));
  };
  join();
  push(0, "rare", 1);
  push(1, "rare", 1);
  for (Step step = 1; step <= 20; ++step) {
    push(0, "always", step);
    push(1, "always", step);
  }
  push(0, "rare", 20);
  push(0, "always", 21);
  ASSERT_OK(saved->checkpoints().Save());

  saved = &Restart();
  ASSERT_OK(saved->checkpoints().RestoreLast());

  join();
  EXPECT_EQ(next_steps, (std::vector<Step>{20, 20}));
  push(0, "rare", 20);
  push(1, "rare", 20);
  EXPECT_EQ(saved->Pull("s", "rare").tensor.elements<float>()[0], 40);
}

// Keys of one namespace that are pushed to together, each time with 1.
class KeysTogether {
 public:
  static constexpr int kNumKeys = 24;

  static std::string Key(int i) { return absl::StrCat("k", i); }
  static Tensor All(int i, float value) {
    return Filled(DType::kF32, value, {i % 2 == 0 ? 8 : 4096});
  }
  static PushRequest Push() {
    PushRequest request;
    request.name_space = "n";
    for (int i = 0; i < kNumKeys; ++i) {
      request.entries.push_back({Key(i), false, All(i, 1)});
    }
    return request;
  }
  static float ValueOf(SavedStore& saved, int i) {
    return saved.Pull("n", Key(i)).tensor.elements<float>()[0];
  }

  // All keys have had `count` updates, and are the same number, also after one
  // more: so their momentum is too.
  static void ExpectSame(SavedStore& saved, uint64_t count) {
    const float value = ValueOf(saved, 0);
    for (int i = 0; i < kNumKeys; ++i) {
      EXPECT_EQ(saved.Stat("n", Key(i)).update_count(), count) << i;
      EXPECT_EQ(ValueOf(saved, i), value) << i;
      EXPECT_OK(saved.Push(PushOf("n", Key(i), All(i, 2))));
    }
    const float next = ValueOf(saved, 0);
    for (int i = 0; i < kNumKeys; ++i) EXPECT_EQ(ValueOf(saved, i), next) << i;
  }
};

// Saves so often while three threads push.
void SaveWhilePushing(SavedStore& saved, int num_checkpoints) {
  std::atomic<bool> is_over = false;
  std::atomic<int> num_pushed = 0;
  std::vector<std::thread> pushers;
  for (int i = 0; i < 3; ++i) {
    pushers.emplace_back([&] {
      while (!is_over) {
        EXPECT_OK(saved.Push(KeysTogether::Push()));
        ++num_pushed;
      }
    });
  }
  for (int i = 0; i < num_checkpoints; ++i) {
    // These are more than may have been under way when the last one began.
    const int enough = num_pushed + 4;
    while (num_pushed < enough) std::this_thread::yield();
    EXPECT_OK(saved.checkpoints().Save());
  }
  is_over = true;
  for (std::thread& pusher : pushers) pusher.join();
}

// Whatever moment a checkpoint has, each push is in all keys of it or in none.
TEST_F(CheckpointsTest, ACheckpointHasTheWholeEffectOfEachCall) {
  constexpr int kNumCheckpoints = 12;
  SavedStore* saved = &Restart(/*keep=*/kNumCheckpoints);
  NamespaceConfig config;
  config.rule = *ParseRuleSpec("adam(learning_rate=0.01)");
  CreateNamespace(*saved, "n", config);
  for (int i = 0; i < KeysTogether::kNumKeys; ++i) {
    ASSERT_OK(saved->Init("n", KeysTogether::Key(i), KeysTogether::All(i, 0)));
  }
  SaveWhilePushing(*saved, kNumCheckpoints);
  const auto all = saved->checkpoints().ListCheckpoints({}, {});
  ASSERT_OK(all);
  ASSERT_EQ(all->checkpoints_size(), kNumCheckpoints);

  uint64_t newer_count = UINT64_MAX;
  for (int i = kNumCheckpoints; i > 0; --i) {
    saved = &Restart(kNumCheckpoints);
    const auto restored = saved->checkpoints().RestoreLast();
    ASSERT_OK(restored);
    const uint64_t count =
        saved->Stat("n", KeysTogether::Key(0)).update_count();
    EXPECT_GT(count, 0u);
    EXPECT_LT(count, newer_count);
    newer_count = count;
    KeysTogether::ExpectSame(*saved, count);
    ASSERT_OK(Remove(saved->checkpoints(), (*restored)->name()));
  }
}

// A store to which something happens when a snapshot of it has been taken, and
// the checkpoint is still being written.
class ChangedMeanwhile final : public Snapshots {
 public:
  ChangedMeanwhile(Snapshots* inner, std::function<void()> change)
      : inner_(*inner), change_(std::move(change)) {}

  absl::Status TakeSnapshot(const std::vector<std::string>& namespaces,
                            SnapshotSink& sink) override {
    absl::Status status = inner_.TakeSnapshot(namespaces, sink);
    change_();
    return status;
  }
  std::unique_ptr<Restoration> StartRestoration(
      OnExisting on_existing) override {
    return inner_.StartRestoration(on_existing);
  }

 private:
  Snapshots& inner_;
  const std::function<void()> change_;
};

// What a checkpoint still has of a namespace, that counts bytes to it, goes
// after it.
TEST_F(CheckpointsTest, NamespaceMayGoWhileItsCheckpointIsWritten) {
  SavedStore& saved = Restart();
  MemoryTensorStore& store = saved.store();
  const uint64_t used_before = store.used_bytes();
  const std::function<void()> changes[] = {
      [&] { store.Discard({.num_partitions = 1, .partitions = {0}}); },
      [&] {
        ASSERT_OK(saved.checkpoints().RestoreCheckpoint(
            RestoreOf("first", {}, "", v1::ON_EXISTING_REPLACE), {}));
      },
      [&] { ASSERT_OK(testing::MakeNow(store, testing::RemoveOf("s"))); }};
  CreateNamespace(saved, "s", {.mode = Mode::kSync, .num_workers = 1});
  ASSERT_OK(SaveAs(saved.checkpoints(), "first"));
  Step step = 0;
  for (const std::function<void()>& change : changes) {
    const std::string key = absl::StrCat("k", ++step);
    ASSERT_OK(saved.Init("s", key, Filled(DType::kF32, 0)));
    ASSERT_OK(saved.Push(StepOf({.rank = 0}, 1, 1, key)));
    ChangedMeanwhile changed(&store, change);
    const auto checkpoints =
        *Checkpoints::Create({.directory = directory_ + "/other"}, &changed);

    EXPECT_OK(checkpoints->Save());
  }
  EXPECT_EQ(store.used_bytes(), used_before);
}

TEST_F(CheckpointsTest, VerifyingEndsWithItsCall) {
  SavedStore& saved = Restart();
  ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 1)));
  ASSERT_OK(SaveAs(saved.checkpoints(), "last"));
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();

  EXPECT_THAT(
      Verify(saved.checkpoints(), "last", {.cancellation = cancellation}),
      StatusIs(absl::StatusCode::kCancelled));
  EXPECT_OK(Verify(saved.checkpoints(), "last"));
}

TEST_F(CheckpointsTest, OtherFilesInTheDirectoryAreNoCheckpoints) {
  Restart();
  std::filesystem::create_directories(directory_ + "/notes");
  std::ofstream(directory_ + "/notes.txt") << "mine";

  for (const std::string name : {"notes", "notes.txt"}) {
    EXPECT_THAT(Remove(saved_->checkpoints(), name),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_TRUE(std::filesystem::exists(directory_ + "/" + name));
  }
  EXPECT_OK(Restart().checkpoints().RestoreLast());
}

TEST_F(CheckpointsTest, SavingPassesOverANameThatACallerHasTaken) {
  Checkpoints& checkpoints = Restart().checkpoints();
  ASSERT_OK(SaveAs(checkpoints, "auto-000000002"));

  const auto next = checkpoints.Save();

  ASSERT_OK(next);
  EXPECT_EQ(next->name(), "auto-000000003");
}

TEST_F(CheckpointsTest, FailuresAreCountedUnlessTheCallerIsToBlame) {
  Checkpoints& checkpoints = Restart().checkpoints();
  ASSERT_OK(SaveAs(checkpoints, "a"));
  EXPECT_FALSE(SaveAs(checkpoints, "a").ok());
  EXPECT_FALSE(SaveAs(checkpoints, "../a").ok());
  EXPECT_FALSE(SaveAs(checkpoints, "b", {"none"}).ok());
  EXPECT_EQ(checkpoints.counts().failed, 0u);
  std::filesystem::remove_all(directory_);

  EXPECT_FALSE(checkpoints.Save().ok());
  EXPECT_EQ(checkpoints.counts().failed, 1u);
}

TEST_F(CheckpointsTest, OnlyTheNewestOfItsOwnStay) {
  SavedStore& saved = Restart(/*keep=*/2);
  ASSERT_OK(SaveAs(saved.checkpoints(), "mine"));
  for (int i = 0; i < 4; ++i) ASSERT_OK(saved.checkpoints().Save());

  std::vector<std::string> names;
  const auto listed = saved.checkpoints().ListCheckpoints({}, {});
  ASSERT_OK(listed);
  for (const CheckpointStatus& each : listed->checkpoints()) {
    names.push_back(each.name());
  }
  EXPECT_THAT(names, ElementsAre("auto-000000004", "auto-000000005", "mine"));
  EXPECT_EQ(saved.checkpoints().counts().saved, 5u);
}

TEST_F(CheckpointsTest, ListsPagesInOrderOfNames) {
  SavedStore& saved = Restart();
  for (const std::string name : {"c", "a", "d", "b"}) {
    ASSERT_OK(SaveAs(saved.checkpoints(), name));
  }
  std::filesystem::create_directories(directory_ + "/bb");

  ListCheckpointsRequest request;
  request.set_page_size(3);
  const auto first = saved.checkpoints().ListCheckpoints(request, {});
  ASSERT_OK(first);
  request.set_page_token(first->next_page_token());
  const auto last = saved.checkpoints().ListCheckpoints(request, {});
  ASSERT_OK(last);

  ASSERT_EQ(first->checkpoints_size(), 3);
  EXPECT_EQ(first->checkpoints(0).name(), "a");
  EXPECT_EQ(first->checkpoints(2).name(), "c");
  EXPECT_EQ(first->next_page_token(), "c");
  ASSERT_EQ(last->checkpoints_size(), 1);
  EXPECT_EQ(last->checkpoints(0).name(), "d");
  EXPECT_EQ(last->next_page_token(), "");
}

TEST_F(CheckpointsTest, WhatWasNotFinishedIsPassedOverAndRemoved) {
  Restart();
  const std::string partial = directory_ + "/.partial-auto-000000009";
  const std::string removed = directory_ + "/.removed-auto-000000001";
  for (const std::string& path : {partial, removed}) {
    std::filesystem::create_directories(path);
    std::ofstream(path + "/0000-00000-values.safetensors") << "half";
  }

  const auto restored = Restart().checkpoints().RestoreLast();

  ASSERT_OK(restored);
  EXPECT_FALSE(restored->has_value());
  EXPECT_FALSE(std::filesystem::exists(partial));
  EXPECT_FALSE(std::filesystem::exists(removed));
}

TEST_F(CheckpointsTest, NamesAndDirectoriesAreChecked) {
  SavedStore& saved = Restart();
  Checkpoints& checkpoints = saved.checkpoints();
  ASSERT_OK(SaveAs(checkpoints, "a"));

  EXPECT_THAT(SaveAs(checkpoints, "a"),
              StatusIs(absl::StatusCode::kAlreadyExists));
  for (const std::string name : {"../a", ".a", "a/b", "", "a b"}) {
    EXPECT_THAT(Remove(checkpoints, name),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
  EXPECT_THAT(SaveAs(checkpoints, "b", {"none"}),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Remove(checkpoints, "b"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Verify(checkpoints, "b"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Checkpoints::Create({.directory = directory_}, &saved.store()),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(CheckpointsTest, ACheckpointOfSomeNamespacesIsNoStart) {
  SavedStore& saved = Restart();
  CreateNamespace(saved, "n", {});
  ASSERT_OK(SaveAs(saved.checkpoints(), "some", {"n"}));
  EXPECT_EQ(saved.checkpoints().counts().saved, 1u);
  EXPECT_EQ(saved.checkpoints().counts().last_time, absl::UnixEpoch());

  const auto restored = Restart().checkpoints().RestoreLast();

  ASSERT_OK(restored);
  EXPECT_FALSE(restored->has_value());
}

}  // namespace
}  // namespace tensorkv
