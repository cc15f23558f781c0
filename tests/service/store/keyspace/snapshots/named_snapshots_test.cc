// What there is of named snapshots, beside a model that copies all values.

#include "service/store/keyspace/snapshots/named_snapshots.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using Values = std::map<std::string, Version>;

// A table of keys without values: its versions stand for these.
class NamedSnapshotsModelTest : public ::testing::Test {
 protected:
  struct Key {
    Version version = 0;
    uint64_t since = 0;
    // Says that it had that version before too.
    bool is_same = false;
  };
  struct Expected {
    uint64_t revision = 0;
    Values values;
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }

  void Open() {
    SnapshotTerms terms = {.series = "s", .prefixes = {""}};
    if (Draw(2) == 0) terms.prefixes = {absl::StrCat("k", Draw(3))};
    Expected expected = {.revision = ++revision_};
    for (const auto& [name, key] : keys_) {
      if (absl::StartsWith(name, terms.prefixes[0])) {
        expected.values[name] = key.version;
      }
    }
    ASSERT_TRUE(named_.Check(terms).ok());
    NamedSnapshot& opened =
        named_.Open(std::move(terms), revision_, absl::ZeroDuration());
    ASSERT_EQ(named_.NextReady(revision_), &opened);
    named_.SetReady(opened);
    expected_[opened.number] = std::move(expected);
  }

  // Changes the key, or removes it.
  void Change() {
    const std::string name = absl::StrCat("k", Draw(3), "/", Draw(3));
    const auto it = keys_.find(name);
    ++revision_;
    if (it == keys_.end()) {
      keys_[name] = {revision_, revision_};
      return;
    }
    Key& key = it->second;
    if (named_.NewestOf(name, key.since, revision_) != nullptr &&
        !(key.is_same &&
          named_.TryExtend(name, key.since, revision_, nullptr))) {
      const FormerValuePtr kept =
          named_.Keep(name, key.since, revision_, kBytes);
      named_.Take(*kept, Tensor(), key.version);
    }
    if (Draw(4) == 0) {  // the update has failed
      key = {key.version, revision_, true};
      return;
    }
    key = {revision_, revision_};
    if (Draw(4) == 0) keys_.erase(it);
  }

  void Close() {
    if (expected_.empty()) return;
    const auto it = std::next(expected_.begin(), Draw(expected_.size()));
    NamedSnapshots::LetGo let_go;
    named_.Close(*named_.Find("s")->Find(it->first),
                 NamedSnapshots::Cause::kDeleted, Draw(3), let_go);
    expected_.erase(it);
  }

  void Check() {
    uint64_t held_bytes = 0;
    for (const auto& [number, expected] : expected_) {
      const NamedSnapshot* const snapshot = named_.Find("s")->Find(number);
      ASSERT_NE(snapshot, nullptr);
      held_bytes += snapshot->held_bytes;
      for (int i = 0; i < 9; ++i) {
        const std::string name = absl::StrCat("k", i / 3, "/", i % 3);
        std::optional<Version> found;
        const auto key = keys_.find(name);
        if (snapshot->Has(name)) {
          if (key != keys_.end() && key->second.since <= expected.revision) {
            found = key->second.version;
          } else if (const FormerValue* const former =
                         named_.FindFormer(name, expected.revision)) {
            found = former->version;
          }
        }
        const auto value = expected.values.find(name);
        ASSERT_EQ(found, value == expected.values.end()
                             ? std::nullopt
                             : std::optional(value->second))
            << name << " in " << number;
      }
    }
    ASSERT_EQ(held_bytes + named_.leftover_bytes(), named_.value_bytes());
  }

  static constexpr uint64_t kBytes = 100;
  const RefPtr<BudgetAccount> account_ = MakeRefCounted<BudgetAccount>(
      MakeRefCounted<ByteBudget>("test", UINT64_MAX));
  const RefPtr<BudgetAccount> metadata_ =
      MakeRefCounted<BudgetAccount>(MakeRefCounted<ByteBudget>("test", 4096));
  NamedSnapshots named_{account_, metadata_};
  std::mt19937_64 random_;
  uint64_t revision_ = 0;
  std::map<std::string, Key> keys_;
  std::map<uint64_t, Expected> expected_;
};

TEST_F(NamedSnapshotsModelTest, HasWhatACopyWouldHaveAndNoMore) {
  for (int seed = 0; seed < 12; ++seed) {
    random_.seed(seed);
    for (int i = 0; i < 200; ++i) {
      const uint64_t what = Draw(10);
      if (what < 6) {
        Change();
      } else if (what < 8) {
        Open();
      } else {
        Close();
      }
      if (i % 4 == 0) Check();
      if (HasFatalFailure()) return;
    }
  }
  while (!expected_.empty()) Close();
  NamedSnapshots::LetGo let_go;
  EXPECT_TRUE(named_.Sweep(1'000'000, let_go));
  let_go = {};
  EXPECT_EQ(named_.value_bytes(), 0);
  EXPECT_EQ(named_.former().size(), 0);
  EXPECT_EQ(named_.overhead_bytes(), 0);
  EXPECT_EQ(account_->used_bytes(), 0);
  // What stays is the series.
  const uint64_t series_bytes = metadata_->used_bytes();
  EXPECT_GT(series_bytes, 0);
  EXPECT_LE(series_bytes, 3000);
}

}  // namespace
}  // namespace tensorkv
