#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/checkpoint/checkpoints.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::CheckpointsTest;
using ::tensorkv::testing::Filled;
using ::tensorkv::testing::PushOf;
using ::tensorkv::testing::Remove;
using ::tensorkv::testing::RestoreOf;
using ::tensorkv::testing::SaveAs;
using ::tensorkv::testing::SavedStore;
using ::tensorkv::testing::StatusIs;

constexpr uint32_t kAlways = 1000;  // every how many checkpoints is whole
// Values of this size are most of what a checkpoint of them takes.
constexpr int64_t kElements = 8 << 10;

class IncrementalCheckpointsTest : public CheckpointsTest {
 protected:
  // Also restores the last checkpoint.
  SavedStore& RestartSharing(uint32_t full_every = kAlways,
                             uint32_t keep = 100) {
    Restart(keep, /*fallback=*/false, full_every);
    EXPECT_OK(saved_->checkpoints().RestoreLast());
    return *saved_;
  }
  void InitKeys(int num_keys) {
    for (int i = 0; i < num_keys; ++i) {
      ASSERT_OK(saved_->Init("", absl::StrCat("k", i),
                             Filled(DType::kF32, i, {kElements})));
    }
  }
  void Push(int key) {
    ASSERT_OK(saved_->Push(PushOf("", absl::StrCat("k", key),
                                  Filled(DType::kF32, 100, {kElements}))));
  }
  CheckpointStatus Save(const std::string& name) {
    return SaveAs(saved_->checkpoints(), name).value();
  }
  // Whether that checkpoint shares nothing with those before.
  bool IsWhole(const CheckpointStatus& saved) {
    return saved.written_bytes() == saved.bytes();
  }
  absl::Status Verify(const std::string& name) {
    return testing::Verify(saved_->checkpoints(), name);
  }
  // The one file of values of a checkpoint that was written whole.
  std::string ValuesOf(const std::string& name) const {
    return absl::StrCat(directory_, "/", name,
                        "/0000-00000-values.safetensors");
  }
  // Changes the last byte, and nothing that would tell of it.
  static void DamageSilently(const std::string& path) {
    const auto time = std::filesystem::last_write_time(path);
    testing::FlipBit(path, -1);
    std::filesystem::last_write_time(path, time);
  }
};

TEST_F(IncrementalCheckpointsTest, OnePercentThatChangedIsAboutWhatIsWritten) {
  RestartSharing();
  InitKeys(200);
  EXPECT_TRUE(IsWhole(Save("all")));
  for (int i = 0; i < 200; i += 100) Push(i);

  const CheckpointStatus some = Save("some");

  EXPECT_EQ(some.num_keys(), 200u);
  EXPECT_GT(some.bytes(), 202 * kElements * sizeof(float));
  EXPECT_GT(some.written_bytes(), some.bytes() / 100);
  EXPECT_LT(some.written_bytes(), some.bytes() / 60);
  EXPECT_EQ(saved_->checkpoints().counts().last_written_bytes,
            some.written_bytes());
  EXPECT_OK(Verify("some"));
}

TEST_F(IncrementalCheckpointsTest, WhatWasRestoredAtTheStartIsTheFormerOne) {
  RestartSharing();
  InitKeys(4);
  Save("before");
  RestartSharing();
  Push(0);
  EXPECT_FALSE(IsWhole(Save("after")));

  RestartSharing();

  EXPECT_EQ(saved_->Pull("", "k0").tensor.elements<float>()[0], 100);
  EXPECT_EQ(saved_->Pull("", "k3").tensor.elements<float>()[0], 3);
}

TEST_F(IncrementalCheckpointsTest, EveryNthIsWrittenWhole) {
  for (const uint32_t full_every : {1u, 3u}) {
    RestartSharing(full_every);
    if (full_every == 1) InitKeys(2);
    for (uint32_t i = 0; i < 7; ++i) {
      const CheckpointStatus saved = Save(absl::StrCat(full_every, "-", i));

      // The counting goes on where the server was restarted.
      const uint32_t steps = full_every == 1 ? i : i + 1;
      EXPECT_EQ(IsWhole(saved), steps % full_every == 0) << full_every << i;
    }
  }
}

TEST_F(IncrementalCheckpointsTest, AFileOfWhichLessThanHalfIsWantedGoes) {
  RestartSharing();
  InitKeys(4);
  Save("0");
  const std::string first = ValuesOf("0");
  Push(0);
  Push(1);
  Save("1");  // half of the file is wanted
  Push(2);
  Save("2");  // a quarter
  EXPECT_EQ(std::filesystem::hard_link_count(first), 3u);

  Save("3");

  EXPECT_EQ(std::filesystem::hard_link_count(first), 3u);
  for (int i = 0; i < 4; ++i) EXPECT_OK(Verify(absl::StrCat(i)));
}

TEST_F(IncrementalCheckpointsTest, FilesStayForThoseThatShareThem) {
  RestartSharing(kAlways, /*keep=*/1);
  InitKeys(4);
  for (int i = 0; i < 6; ++i) {
    Push(i % 2);
    ASSERT_OK(saved_->checkpoints().Save());
  }
  // Two of them have no tensors.
  EXPECT_EQ(FilesOf("auto-000000006").size(), 5u);

  RestartSharing();

  EXPECT_EQ(saved_->Pull("", "k1").tensor.elements<float>()[0], 100);
  EXPECT_EQ(saved_->Pull("", "k2").tensor.elements<float>()[0], 2);
}

TEST_F(IncrementalCheckpointsTest, AFileThatIsNotAsItWasWrittenIsNotShared) {
  RestartSharing();
  InitKeys(4);
  Save("0");
  std::filesystem::last_write_time(ValuesOf("0"), {});
  EXPECT_TRUE(IsWhole(Save("1")));
  std::filesystem::resize_file(ValuesOf("1"), 1000);
  EXPECT_TRUE(IsWhole(Save("2")));
  // Nor can it be linked.
  std::filesystem::remove(ValuesOf("2"));
  std::filesystem::create_directory(ValuesOf("2"));

  EXPECT_TRUE(IsWhole(Save("3")));
  EXPECT_OK(Verify("3"));
}

TEST_F(IncrementalCheckpointsTest, DamageThatWasFoundIsNotPassedOn) {
  RestartSharing();
  InitKeys(4);
  Save("0");
  EXPECT_FALSE(IsWhole(Save("1")));
  DamageSilently(ValuesOf("0"));
  // Nothing tells of it but the digests, so both checkpoints have it.
  EXPECT_FALSE(IsWhole(Save("2")));
  EXPECT_THAT(Verify("0"), StatusIs(absl::StatusCode::kDataLoss));

  EXPECT_TRUE(IsWhole(Save("3")));
  EXPECT_OK(Verify("3"));
  EXPECT_THAT(Verify("2"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(IncrementalCheckpointsTest, WithoutTheFormerOneAllIsWritten) {
  RestartSharing();
  InitKeys(2);
  Save("0");
  ASSERT_OK(Remove(saved_->checkpoints(), "0"));

  EXPECT_TRUE(IsWhole(Save("1")));
  EXPECT_FALSE(IsWhole(Save("2")));
}

TEST_F(IncrementalCheckpointsTest, OneOfSomeNamespacesSharesAndIsNotShared) {
  RestartSharing();
  InitKeys(2);
  Save("0");
  Push(0);
  const auto some = SaveAs(saved_->checkpoints(), "some", {"default"});
  ASSERT_OK(some);
  EXPECT_FALSE(IsWhole(*some));
  const uint64_t before = std::filesystem::hard_link_count(ValuesOf("0"));

  EXPECT_EQ(Save("1").written_bytes(), some->written_bytes());
  EXPECT_EQ(std::filesystem::hard_link_count(ValuesOf("0")), before + 1);
}

// --- Random changes ----------------------------------------------------------

// All that a key has.
struct Facts {
  Version version = 0;
  uint64_t update_count = 0;
  std::string value;
  std::map<std::string, std::string> states;

  bool operator==(const Facts&) const = default;
};
// By namespace and key.
using Contents = std::map<std::string, std::map<std::string, Facts>>;

Facts FactsOf(SavedStore& at, const std::string& name_space,
              const std::string& key) {
  const KeyStatus status = at.Stat(name_space, key);
  Facts facts = {status.version(), status.update_count(),
                 BytesOf(at.Pull(name_space, key))};
  for (const std::string& state : status.states()) {
    facts.states[state] = BytesOf(at.GetState(name_space, key, state));
  }
  return facts;
}

// What a checkpoint must have is what the store had when it was saved, which
// this asks the store for.
class RandomChangesTest : public IncrementalCheckpointsTest {
 protected:
  int Below(int limit) {
    return std::uniform_int_distribution<int>(0, limit - 1)(random_);
  }
  std::string SomeNamespace() { return Below(2) == 0 ? "a" : "b"; }
  std::string SomeKey() { return absl::StrCat("k", Below(12)); }
  Tensor SomeTensor(DType dtype) {
    return Filled(dtype, Below(5) - 2, {1 + 10 * (Below(2))});
  }

  // If there is such a key, and it has states.
  void SetSomeState(const std::string& name_space, const std::string& key) {
    for (const KeyStatus& each : KeysOf(name_space)) {
      if (each.key() != key || each.states().empty()) continue;
      const std::string& state = each.states(0);
      const Tensor now = saved_->GetState(name_space, key, state).tensor;
      EXPECT_OK(saved_->SetState(name_space, key, state,
                                 Filled(now.dtype(), Below(9), now.shape())));
    }
  }
  void Change() {
    const std::string name_space = SomeNamespace();
    const std::string key = SomeKey();
    InitRequest init = {.name_space = name_space,
                        .on_existing = OnExisting::kReplace};
    // Each may be refused: there may be no such key, or not of that form.
    switch (Below(16)) {
      case 0:
        testing::MakeNow(saved_->store(), testing::RemoveOf(name_space))
            .IgnoreError();
        return;
      case 1:
        testing::MakeNow(
            saved_->store(),
            testing::SetRuleOf(Below(2) == 0 ? "adam" : "accumulate", "k1*",
                               name_space))
            .IgnoreError();
        return;
      case 2:
        testing::MakeNow(saved_->store(), testing::DeleteOf({key}, name_space))
            .IgnoreError();
        return;
      case 3:
      case 4:
        SetSomeState(name_space, key);
        return;
      case 5:
      case 6:
      case 7:
        init.entries.push_back(
            {key, SomeTensor(Below(2) == 0 ? DType::kF32 : DType::kBF16)});
        saved_->Init(std::move(init)).IgnoreError();
        return;
      default:
        saved_
            ->Push(
                PushOf(name_space, key,
                       SomeTensor(Below(2) == 0 ? DType::kF32 : DType::kBF16)))
            .IgnoreError();
    }
  }
  // Makes those that are not there.
  void MakeNamespaces() {
    for (const std::string name : {"a", "b"}) {
      if (saved_->store().DescribeNamespace(testing::DescribeOf(name)).ok())
        continue;
      NamespaceConfig config;
      config.rule = *ParseRuleSpec("sgd(learning_rate=0.1, momentum=0.9)");
      CreateNamespace(*saved_, name, config);
    }
  }
  // There are no more than a page has.
  std::vector<KeyStatus> KeysOf(const std::string& name_space) {
    ListRequest request;
    request.set_namespace_(name_space);
    const auto listed = saved_->store().List(request);
    if (!listed.ok()) return {};
    return {listed->keys().begin(), listed->keys().end()};
  }
  std::map<std::string, Facts> AllIn(const std::string& name_space) {
    std::map<std::string, Facts> all;
    for (const KeyStatus& key : KeysOf(name_space)) {
      all[key.key()] = FactsOf(*saved_, name_space, key.key());
    }
    return all;
  }

  void SaveSome() {
    const std::string name = absl::StrCat("s", num_saves_++);
    std::vector<std::string> namespaces;
    if (Below(4) == 0) namespaces = {"a"};
    const auto saved = SaveAs(saved_->checkpoints(), name, namespaces);
    ASSERT_OK(saved);
    CheckBytes(name, *saved);
    for (const std::string& name_space : saved->namespaces()) {
      contents_[name][name_space] = AllIn(name_space);
    }
    if (namespaces.empty()) last_ = name;
  }
  // What nobody else links was written for it.
  void CheckBytes(const std::string& name, const CheckpointStatus& saved) {
    uint64_t bytes = 0;
    uint64_t written_bytes = 0;
    for (const std::string& file : FilesOf(name)) {
      if (absl::EndsWith(file, "/CHECKPOINT")) continue;
      bytes += std::filesystem::file_size(file);
      if (std::filesystem::hard_link_count(file) == 1) {
        written_bytes += std::filesystem::file_size(file);
      }
    }
    EXPECT_EQ(saved.bytes(), bytes);
    EXPECT_EQ(saved.written_bytes(), written_bytes);
    if (written_bytes < bytes) ++num_sharing_;
  }
  void DeleteSome() {
    if (contents_.size() < 4) return;
    const auto it = std::next(contents_.begin(), Below(3));
    if (it->first == last_) return;
    ASSERT_OK(Remove(saved_->checkpoints(), it->first));
    contents_.erase(it);
  }
  void CheckAll() {
    for (const auto& [name, namespaces] : contents_) {
      EXPECT_OK(Verify(name));
      for (const auto& [name_space, keys] : namespaces) {
        ASSERT_OK(saved_->checkpoints().RestoreCheckpoint(
            RestoreOf(name, {name_space}, "check", v1::ON_EXISTING_REPLACE),
            {}));
        EXPECT_TRUE(AllIn("check") == keys) << name << " " << name_space;
      }
    }
    testing::MakeNow(saved_->store(), testing::RemoveOf("check")).IgnoreError();
  }

  std::mt19937_64 random_{/*seed=*/11};
  int num_saves_ = 0;
  int num_sharing_ = 0;
  std::map<std::string, Contents> contents_;
  // The last one of all namespaces.
  std::string last_;
};

TEST_F(RandomChangesTest, EachCheckpointHasWhatTheStoreHad) {
  RestartSharing(/*full_every=*/6);
  for (int round = 0; round < 60; ++round) {
    MakeNamespaces();
    for (int i = Below(12); i > 0; --i) Change();
    MakeNamespaces();
    ASSERT_NO_FATAL_FAILURE(SaveSome());
    if (Below(3) == 0) DeleteSome();
    if (Below(6) != 0 || last_.empty()) continue;
    RestartSharing(/*full_every=*/6);
    for (const auto& [name_space, keys] : contents_[last_]) {
      EXPECT_TRUE(AllIn(name_space) == keys) << last_ << " " << name_space;
    }
  }
  EXPECT_GT(num_sharing_, 20);
  CheckAll();
}

}  // namespace
}  // namespace tensorkv
