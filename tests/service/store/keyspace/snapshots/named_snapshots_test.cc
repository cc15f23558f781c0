// What there is of named snapshots, beside a model that copies all values.

#include "service/store/keyspace/snapshots/named_snapshots.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
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
  using Incomplete = std::map<uint64_t, std::map<uint32_t, Values>>;
  struct Expected {
    Values values;
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }

  void Open() {
    SnapshotTerms terms = {.series = "s", .prefixes = {""}};
    if (Draw(2) == 0) terms.prefixes = {absl::StrCat("k", Draw(3))};
    ++revision_;
    Expected expected;
    for (const auto& [name, key] : keys_) {
      if (absl::StartsWith(name, terms.prefixes[0])) {
        expected.values[name] = key.version;
      }
    }
    ASSERT_TRUE(named_.Check(terms).ok());
    NamedSnapshot& opened =
        named_.Open(std::move(terms), revision_, absl::ZeroDuration());
    ASSERT_EQ(named_.NextReady(revision_), &opened);
    EXPECT_TRUE(named_.SetReady(opened, absl::ZeroDuration()));
    expected_[opened.number] = std::move(expected);
    EndPassed(opened.number);
  }

  // Returns the terms of a part of a new number, or of one that waits for its
  // parts. Part i has the keys "ki/", by their names or by that prefix.
  SnapshotTerms PartTerms() {
    uint64_t number = last_number() + 1;
    if (!incomplete_.empty() && Draw(4) > 0) {
      number = std::next(incomplete_.begin(), Draw(incomplete_.size()))->first;
    }
    SnapshotTerms terms = {.series = "s", .number = number};
    terms.part_index = static_cast<uint32_t>(Draw(kNumParts));
    terms.part_count = kNumParts;
    const std::string prefix = absl::StrCat("k", terms.part_index, "/");
    if (number % 2 == 0) {
      terms.prefixes = {prefix};
    } else {
      for (int i = 0; i < 3; ++i) terms.keys.push_back(absl::StrCat(prefix, i));
    }
    return terms;
  }

  void OpenPart() {
    SnapshotTerms terms = PartTerms();
    const uint64_t number = *terms.number;
    const uint32_t index = terms.part_index;
    terms.uid = ++revision_;
    Values values;
    for (const auto& [name, key] : keys_) {
      if (name.starts_with(absl::StrCat("k", index, "/"))) {
        values[name] = key.version;
      }
    }
    ASSERT_TRUE(named_.Check(terms).ok());
    // What the change makes room for may be other parts of that number.
    if (!incomplete_[number].empty() && Draw(4) == 0) {
      CloseIncomplete(incomplete_.find(number));
    }
    if (incomplete_[number].contains(index)) {
      NamedSnapshots::LetGo let_go;
      named_.Close(*named_.FindParts("s", number)->Find(index),
                   NamedSnapshots::Cause::kReplaced, Draw(3), let_go);
    }
    incomplete_[number][index] = std::move(values);
    NamedSnapshot& opened =
        named_.OpenPart(std::move(terms), revision_, absl::ZeroDuration());
    ASSERT_EQ(named_.NextReady(revision_), &opened);
    const bool is_whole = named_.SetReady(opened, absl::ZeroDuration());
    ASSERT_EQ(is_whole, incomplete_[number].size() == kNumParts);
    if (!is_whole) return;
    Expected& whole = expected_[number];
    for (const auto& [part, its] : incomplete_[number]) {
      whole.values.insert(its.begin(), its.end());
    }
    incomplete_.erase(number);
    EndPassed(number);
  }

  // Lets go of what waits for parts though a higher number is there.
  void EndPassed(uint64_t number) {
    highest_ = std::max(highest_, number);
    incomplete_.erase(incomplete_.begin(), incomplete_.lower_bound(number));
    while (NamedSnapshot* const passed =
               NamedSnapshots::Surplus(*named_.Find("s"))) {
      EXPECT_LT(passed->number, number);
      NamedSnapshots::LetGo let_go;
      named_.Close(*passed, NamedSnapshots::Cause::kKeepLast, Draw(3), let_go);
    }
  }

  // Has nobody, or somebody, have a lease of a snapshot.
  void Lease() {
    if (expected_.empty()) return;
    const uint64_t number =
        std::next(expected_.begin(), Draw(expected_.size()))->first;
    const bool is_leased = leased_.insert(number).second;
    if (!is_leased) leased_.erase(number);
    ASSERT_TRUE(named_
                    .Lease(*named_.Find("s")->Find(number), {"caller", "lease"},
                           absl::Seconds(is_leased ? 1 : 0),
                           absl::ZeroDuration())
                    .ok());
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

  // Ends what waits for parts, by any of these: its number is free if it is the
  // last.
  void CloseIncomplete() {
    if (incomplete_.empty()) return;
    CloseIncomplete(std::next(incomplete_.begin(), Draw(incomplete_.size())));
  }
  void CloseIncomplete(Incomplete::iterator it) {
    const bool was_last = it->first == last_number();
    const auto part = std::next(it->second.begin(), Draw(it->second.size()));
    NamedSnapshots::LetGo let_go;
    named_.Close(*named_.FindParts("s", it->first)->Find(part->first),
                 NamedSnapshots::Cause::kRetained, Draw(3), let_go);
    EXPECT_EQ(let_go.snapshots.size(), it->second.size());
    EXPECT_EQ(last_number() < it->first, was_last);
    incomplete_.erase(it);
  }

  void Close() {
    if (Draw(3) == 0) CloseIncomplete();
    if (expected_.empty()) return;
    const auto it = std::next(expected_.begin(), Draw(expected_.size()));
    NamedSnapshots::LetGo let_go;
    named_.Close(*named_.Find("s")->Find(it->first),
                 NamedSnapshots::Cause::kDeleted, Draw(3), let_go);
    leased_.erase(it->first);
    expected_.erase(it);
  }

  void Check() {
    for (const auto& [number, expected] : expected_) {
      const NamedSnapshot* const snapshot = named_.Find("s")->Find(number);
      ASSERT_NE(snapshot, nullptr);
      for (int i = 0; i < 9; ++i) {
        const std::string name = absl::StrCat("k", i / 3, "/", i % 3);
        std::optional<Version> found;
        const auto key = keys_.find(name);
        const NamedSnapshot* const part = PartOf(*snapshot, name);
        if (part != nullptr && part->Has(name)) {
          if (key != keys_.end() && key->second.since <= part->revision) {
            found = key->second.version;
          } else if (const FormerValue* const former =
                         named_.FindFormer(name, part->revision)) {
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
    CheckOrder();
  }

  // Checks which snapshot goes first, and that all values belong to one.
  void CheckOrder() {
    uint64_t held_bytes = 0;
    const NamedSnapshot* first = nullptr;
    const auto rank = [this](const NamedSnapshot& each) {
      return std::tuple(each.held.empty(), leased_.contains(each.number),
                        each.revision);
    };
    const Series* const series = named_.Find("s");
    if (series == nullptr) return;
    for (const auto* const some : {&series->snapshots, &series->shares}) {
      for (const auto& [id, each] : *some) {
        held_bytes += each.held_bytes;
        if (first == nullptr || rank(each) < rank(*first)) first = &each;
      }
    }
    ASSERT_EQ(named_.Victim(), first);
    const uint64_t awaited =
        incomplete_.empty() ? 0 : incomplete_.rbegin()->first;
    ASSERT_EQ(last_number(), std::max(highest_, awaited));
    ASSERT_EQ(held_bytes + named_.leftover_bytes(), named_.value_bytes());
    ASSERT_EQ(named_.num_ready(), expected_.size());
  }

  uint64_t last_number() const {
    const Series* const series = named_.Find("s");
    return series == nullptr ? 0 : series->last_number;
  }

  static constexpr uint64_t kBytes = 100;
  static constexpr uint32_t kNumParts = 2;
  const RefPtr<BudgetAccount> account_ = MakeRefCounted<BudgetAccount>(
      MakeRefCounted<ByteBudget>("test", UINT64_MAX));
  const RefPtr<BudgetAccount> metadata_ =
      MakeRefCounted<BudgetAccount>(MakeRefCounted<ByteBudget>("test", 4096));
  NamedSnapshots named_{account_, metadata_};
  std::mt19937_64 random_;
  uint64_t revision_ = 0;
  std::map<std::string, Key> keys_;
  std::map<uint64_t, Expected> expected_;
  // What parts have, by their numbers and indices, that wait for others.
  Incomplete incomplete_;
  // The highest number that there was ever.
  uint64_t highest_ = 0;
  std::set<uint64_t> leased_;
};

TEST_F(NamedSnapshotsModelTest, HasWhatACopyWouldHaveAndNoMore) {
  for (int seed = 0; seed < 12; ++seed) {
    random_.seed(seed);
    for (int i = 0; i < 200; ++i) {
      const uint64_t what = Draw(14);
      if (what < 6) {
        Change();
      } else if (what < 7) {
        Open();
      } else if (what < 10) {
        OpenPart();
      } else if (what < 11) {
        Lease();
      } else {
        Close();
      }
      if (i % 4 == 0) Check();
      if (HasFatalFailure()) return;
    }
  }
  while (!incomplete_.empty()) CloseIncomplete();
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
