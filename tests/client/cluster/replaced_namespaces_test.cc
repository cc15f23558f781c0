// A client of a cluster that has known a namespace, or a key, for long, while
// another client deletes it and makes it anew, of another kind.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/sanitizers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Caller;
using testing::Full;
using testing::HasReason;
using testing::HasTensor;
using testing::IsFilledWith;
using testing::IsOk;
using testing::IsOkAndHolds;
using testing::TestCluster;

constexpr size_t kServers = 2;
constexpr uint32_t kWorkers = 2;
constexpr uint64_t kSplitBytes = 1 << 19;
// Whole, and in as many slices as there are.
const Shape kSmall = {7};
const Shape kLarge = {263, 500};
constexpr size_t kSlices = 2;

enum class Kind { kPlain, kWithoutSlices, kMirrored };

// What is there, as a test has made it.
struct Model {
  struct Key {
    Shape shape;
    double value = 0;
  };

  Kind kind = Kind::kPlain;
  std::map<std::string, Key> keys;
  Step next_step = 1;

  // On all servers together; on each of them where they mirror.
  size_t num_stored_keys() const {
    size_t num = 0;
    for (const auto& [name, key] : keys) {
      const bool is_cut = key.shape == kLarge && kind != Kind::kWithoutSlices;
      num += is_cut ? kSlices : 1;
    }
    return num;
  }
};

class ReplacedNamespacesTest : public ::testing::Test {
 protected:
  // The client that knows what was there; the one that changes it.
  Caller Ours() { return Caller(*ours_, "n"); }
  Caller Theirs() { return Caller(*theirs_, "n"); }

  void Replace(Kind kind) {
    if (model_) {
      ASSERT_OK(Theirs().Drop());
    }
    model_ = Model{.kind = kind};
    NamespaceConfig config = {.rule = ParseRuleSpec("accumulate").value()};
    if (kind == Kind::kMirrored) {
      config.mode = Mode::kSync;
      config.num_workers = kWorkers;
      config.mirrored = true;
    }
    ASSERT_OK(Theirs().Create(config));
    if (kind == Kind::kWithoutSlices) {
      ASSERT_OK(Theirs().SetRule("lamb", "unused"));
    }
  }
  void ReplaceKey(const std::string& name, const Shape& shape, double value) {
    ASSERT_OK(Theirs().Delete({name}, /*allow_missing=*/true));
    InitBy(Theirs(), name, shape, value);
  }
  void InitBy(const Caller& caller, const std::string& name, const Shape& shape,
              double value) {
    ASSERT_OK(caller.Init(name, Full(shape, value)));
    model_->keys[name] = {shape, value};
  }

  // Each worker brings ones, or nobody in particular does.
  void PushByOurs(const std::string& name) {
    Model::Key& key = model_->keys.at(name);
    const Tensor ones = Full(key.shape, 1);
    if (model_->kind != Kind::kMirrored) {
      ASSERT_OK(Ours().Push(name, ones));
      key.value += 1;
      return;
    }
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_OK(Ours().As(rank).Push(name, ones, model_->next_step));
    }
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_OK(Ours().As(rank).Pull(name));
    }
    key.value += kWorkers;
    ++model_->next_step;
  }

  void ExpectAsModelledBy(const Caller& caller) {
    std::vector<std::string> names;
    const auto listed = caller.List();
    ASSERT_OK(listed);
    for (const KeyStatus& key : listed->keys()) names.push_back(key.key());
    std::vector<std::string> expected;
    std::vector<PullEntry> pulled;
    for (const auto& [name, key] : model_->keys) {
      expected.push_back(name);
      pulled.push_back({.key = name});
    }
    EXPECT_EQ(names, expected);
    if (expected.empty()) return;
    const auto statuses = caller.StatMany(expected);
    ASSERT_OK(statuses);
    const auto values = caller.PullMany(pulled);
    ASSERT_OK(values);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Model::Key& key = model_->keys.at(expected[i]);
      EXPECT_THAT(ShapeOf((*statuses)[i]), IsOkAndHolds(key.shape))
          << expected[i];
      EXPECT_THAT(values->values[i].tensor, IsFilledWith(key.value))
          << expected[i];
    }
  }
  // No server has less, or more, than it is to have.
  void ExpectWholeOnServers() {
    const size_t expected = model_->num_stored_keys();
    size_t total = 0;
    for (size_t i = 0; i < kServers; ++i) {
      const auto status = Caller(*ones_[i], "n").Describe();
      ASSERT_OK(status);
      total += status->num_keys();
      if (model_->kind == Kind::kMirrored) {
        EXPECT_EQ(status->num_keys(), expected) << i;
      }
    }
    if (model_->kind != Kind::kMirrored) {
      EXPECT_EQ(total, expected);
    }
  }

  TestCluster cluster_{kServers, kSplitBytes};
  const std::unique_ptr<Connection> ours_ = cluster_.Connect();
  const std::unique_ptr<Connection> theirs_ = cluster_.Connect();
  const std::unique_ptr<Connection> ones_[kServers] = {
      cluster_.ConnectToOne(0), cluster_.ConnectToOne(1)};
  std::optional<Model> model_;
};

struct Change {
  const char* name;
  Kind from;
  Kind to;
};

class ChangedKindTest : public ReplacedNamespacesTest,
                        public ::testing::WithParamInterface<Change> {
 protected:
  // A key of each server, and one in slices, which the client has used.
  void SetUp() override {
    Replace(GetParam().from);
    MakeKeys();
    for (const std::string& name : names_) PushByOurs(name);
    ExpectAsModelledBy(Ours());
    Replace(GetParam().to);
  }
  void MakeKeys() {
    for (const std::string& name : names_) InitBy(Theirs(), name, kSmall, 1);
    InitBy(Theirs(), "w", kLarge, 2);
  }

  const std::vector<std::string> names_ = {cluster_.KeyOf(0, "n"),
                                           cluster_.KeyOf(1, "n")};
};

TEST_P(ChangedKindTest, InitCreatesKeysWhereTheyBelong) {
  for (const std::string& name : names_) InitBy(Ours(), name, kSmall, 3);
  InitBy(Ours(), "w", kLarge, 4);

  ExpectWholeOnServers();
  ExpectAsModelledBy(Theirs());
  ExpectAsModelledBy(Ours());
}

TEST_P(ChangedKindTest, InitOfSeveralKeysCreatesAllOfThem) {
  std::vector<InitEntry> entries;
  for (const std::string& name : names_) {
    entries.push_back({.key = name, .tensor = Full(kSmall, 3)});
    model_->keys[name] = {kSmall, 3};
  }

  EXPECT_OK(Ours().InitMany(entries));

  ExpectWholeOnServers();
  ExpectAsModelledBy(Theirs());
}

TEST_P(ChangedKindTest, DeleteRemovesKeysFromAllServers) {
  MakeKeys();

  EXPECT_THAT(Ours().Delete({names_[0]}), IsOkAndHolds(1u));
  EXPECT_THAT(Ours().Delete({names_[1], "w"}), IsOkAndHolds(2u));
  model_->keys.clear();

  ExpectWholeOnServers();
  ExpectAsModelledBy(Theirs());
}

TEST_P(ChangedKindTest, ReadsFindWhatIsThere) {
  MakeKeys();

  ExpectAsModelledBy(Ours());
  for (const std::string& name : names_) {
    EXPECT_THAT(Ours().Pull(name), IsOkAndHolds(HasTensor(IsFilledWith(1))));
    EXPECT_OK(Ours().Stat(name));
  }
  EXPECT_EQ(Ours().Describe()->config().mirrored(),
            GetParam().to == Kind::kMirrored);
}

TEST_P(ChangedKindTest, PushesCount) {
  MakeKeys();

  for (const std::string& name : names_) PushByOurs(name);
  PushByOurs("w");

  ExpectAsModelledBy(Theirs());
  ExpectWholeOnServers();
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ChangedKindTest,
    ::testing::Values(
        Change{"PlainToMirrored", Kind::kPlain, Kind::kMirrored},
        Change{"MirroredToPlain", Kind::kMirrored, Kind::kPlain},
        Change{"PlainToPlain", Kind::kPlain, Kind::kPlain},
        Change{"MirroredToMirrored", Kind::kMirrored, Kind::kMirrored},
        Change{"SlicesToWhole", Kind::kPlain, Kind::kWithoutSlices},
        Change{"WholeToSlices", Kind::kWithoutSlices, Kind::kPlain}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ReplacedNamespacesTest, NamespaceThatHasGoneIsNotFound) {
  Replace(Kind::kMirrored);
  InitBy(Ours(), "w", kSmall, 1);
  ASSERT_OK(Theirs().Drop());

  EXPECT_THAT(Ours().Init("v", Full(kSmall, 1)),
              HasReason(Reason::kNamespaceNotFound));
  for (size_t server = 0; server < kServers; ++server) {
    EXPECT_THAT(Ours().Pull(cluster_.KeyOf(server, "n")),
                HasReason(Reason::kNamespaceNotFound));
  }
}

// A server keeps an earlier namespace that has keys, whose home may have lost
// it.
TEST_F(ReplacedNamespacesTest, StepsAreThoseOfTheNamespaceAtItsHome) {
  int num_left_behind = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string name = absl::StrCat("m", i);
    const auto one = cluster_.ConnectToOne(1);
    const Caller former(*one, name);
    const NamespaceConfig config = {.mode = Mode::kSync, .num_workers = 1};
    ASSERT_OK(former.Create(config));
    std::string key = "k";
    while (!former.Init(key, Full(kSmall, 0)).ok()) key += "k";
    ASSERT_OK(former.As(0).Push(key, Full(kSmall, 1), 1));
    // It is at home there, or is left there.
    const Caller ours(*ours_, name);
    if (ReasonOf(ours.Create(config)) != Reason::kNamespaceReplaced) continue;
    ++num_left_behind;

    const auto reply = ours.Call(DescribeStepsRequest());

    ASSERT_OK(reply);
    EXPECT_EQ(reply->steps_size(), 0) << name;
  }
  EXPECT_GT(num_left_behind, 0);
}

// Nothing that it knows of a former life comes into a later one.
TEST_F(ReplacedNamespacesTest, ClientGoesThroughAHundredLives) {
  constexpr int kLives = 100;
  for (int life = 0; life < kLives && !HasFailure(); ++life) {
    SCOPED_TRACE(life);
    Replace(life % 2 == 0 ? Kind::kPlain : Kind::kMirrored);
    const Shape shape = {5 + life % 3};
    const std::string names[] = {cluster_.KeyOf(0, "n"),
                                 cluster_.KeyOf(1, "n")};
    for (const std::string& name : names) {
      InitBy(life % 4 < 2 ? Ours() : Theirs(), name, shape, life);
      PushByOurs(name);
    }
    for (const std::string& name : names) {
      EXPECT_THAT(
          Ours().Pull(name),
          IsOkAndHolds(HasTensor(IsFilledWith(model_->keys.at(name).value))));
    }
    ExpectAsModelledBy(Ours());
    ExpectWholeOnServers();
  }
}

// A uid says which namespace is meant: no other one is taken for it.
TEST_F(ReplacedNamespacesTest, CallForTheFormerNamespaceIsRefused) {
  Replace(Kind::kPlain);
  const uint64_t uid = Ours().Describe()->uid();
  Replace(Kind::kMirrored);

  const InitRequest init = {.name_space = "n",
                            .entries = {{"w", Full(kSmall, 1)}},
                            .namespace_uid = uid};
  EXPECT_THAT(ours_->Call(init), HasReason(Reason::kNamespaceReplaced));
  ExpectWholeOnServers();
}

// By seed.
class DrawnReplacementsTest : public ReplacedNamespacesTest,
                              public ::testing::WithParamInterface<uint32_t> {};

// Whatever somebody else replaces between two calls, the next one has to do
// with what is there.
TEST_P(DrawnReplacementsTest, EveryCallHasToDoWithWhatIsThere) {
  std::mt19937 random(GetParam());
  const std::vector<std::string> names = {"a", "b", cluster_.KeyOf(0, "n"),
                                          cluster_.KeyOf(1, "n")};
  const auto replace = [&] {
    Replace(static_cast<Kind>(random() % 3));
    for (const std::string& name : names) {
      if (random() % 2 == 0) continue;
      InitBy(Theirs(), name, random() % 3 == 0 ? kLarge : kSmall, random() % 9);
    }
  };
  replace();
  constexpr int kNumCalls = testing::FewerIfSanitized(100);
  for (int i = 0; i < kNumCalls && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const std::string& name = names[random() % names.size()];
    if (random() % 4 == 0) replace();
    if (random() % 4 == 0) {
      ReplaceKey(name, random() % 2 == 0 ? kLarge : kSmall, random() % 9);
    }
    const auto known = model_->keys.find(name);
    const bool is_there = known != model_->keys.end();
    switch (random() % 6) {
      case 0:
        if (is_there) {
          EXPECT_THAT(Ours().Init(name, Full(kSmall, 5)),
                      testing::StatusIs(absl::StatusCode::kAlreadyExists));
        } else {
          InitBy(Ours(), name, random() % 2 == 0 ? kLarge : kSmall, 5);
        }
        break;
      case 1:
        if (is_there) {
          EXPECT_THAT(Ours().Delete({name}), IsOkAndHolds(1u));
          model_->keys.erase(known);
        } else {
          EXPECT_THAT(Ours().Delete({name}), HasReason(Reason::kKeyNotFound));
        }
        break;
      case 2:
        if (is_there) PushByOurs(name);
        break;
      case 3:
        if (is_there) {
          EXPECT_THAT(
              Ours().Pull(name),
              IsOkAndHolds(HasTensor(IsFilledWith(known->second.value))));
        } else {
          EXPECT_THAT(Ours().Pull(name), HasReason(Reason::kKeyNotFound));
        }
        break;
      case 4:
        if (is_there) {
          EXPECT_THAT(
              Ours().Await(name),
              IsOkAndHolds(HasTensor(IsFilledWith(known->second.value))));
        } else {
          EXPECT_THAT(Ours().Stat(name), HasReason(Reason::kKeyNotFound));
        }
        break;
      default:
        ExpectAsModelledBy(Ours());
    }
    ExpectWholeOnServers();
    if (i % 10 == 0) ExpectAsModelledBy(Theirs());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DrawnReplacementsTest,
                         ::testing::Range(1u, 6u));

}  // namespace
}  // namespace tensorkv
