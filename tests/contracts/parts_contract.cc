// Snapshots that several callers publish, each a part.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns terms of part `index` of `count` of that number.
PublishAs PartOf(uint64_t number, uint32_t index, uint32_t count = 2) {
  PublishAs part = PublicationOf("s");
  part.set_number(number);
  part.mutable_part()->set_index(index);
  part.mutable_part()->set_count(count);
  return part;
}

// Sets the keys to that value, as a part.
absl::StatusOr<InitReply> Publish(const Caller& store,
                                  const std::vector<std::string>& keys,
                                  double value, PublishAs part) {
  InitRequest request = {.on_existing = OnExisting::kReplace,
                         .publish_as = std::move(part)};
  for (const std::string& key : keys) {
    request.entries.push_back({key, Full({2}, value)});
  }
  return store.Call(request);
}

double ValueAt(const Caller& store, const std::string& key, uint64_t number) {
  const absl::StatusOr<Value> value =
      PullAt(store, key, SnapshotOf("s", number));
  EXPECT_OK(value.status());
  return value.ok() ? ElementsOf(value->tensor)[0] : -1;
}

TEST_P(SnapshotContractTest, PartsOfAClusterAreRefused) {
  if (!is_cluster()) GTEST_SKIP() << "one server takes them";

  EXPECT_THAT(Publish(store_, {"a"}, 1, PartOf(1, 0)).status(),
              StatusIs(StatusCode::kUnimplemented));

  EXPECT_THAT(store_.Pull("a"), StatusIs(StatusCode::kNotFound));
}

TEST_P(SnapshotContractTest, OfPartsIsThereOnceAllHaveCome) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  ASSERT_OK_AND_ASSIGN(const InitReply first,
                       Publish(store_, {"a", "b"}, 1, PartOf(1, 0, 3)));
  EXPECT_EQ(first.published->number, 1);
  EXPECT_EQ(first.published->parts_missing, 2);
  ASSERT_OK(Publish(store_, {"c"}, 1, PartOf(1, 2, 3)));
  EXPECT_THAT(NumbersOf(store_, "s"), IsEmpty());
  for (const SnapshotReference& at :
       {SnapshotOf("s", 1), LatestSnapshot("s")}) {
    EXPECT_THAT(PullAt(store_, "a", at).status(),
                HasReason(Reason::kSnapshotNotFound));
  }
  // What comes between is in none of these parts.
  ASSERT_OK(store_.Push("a", Full({2}, 9)));
  ASSERT_OK(store_.Init("d", Full({2}, 9)));
  Background waiting(
      [&] { return PullAt(store_, "a", SnapshotAtLeast("s", 1)); });
  AwaitWaitingCalls(store_, 1);

  ASSERT_OK_AND_ASSIGN(const InitReply last,
                       Publish(store_, {"e"}, 1, PartOf(1, 1, 3)));

  EXPECT_EQ(last.published->parts_missing, 0);
  EXPECT_THAT(waiting.Result(), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(1));
  for (const std::string key : {"a", "b", "c", "e"}) {
    EXPECT_EQ(ValueAt(store_, key, 1), 1) << key;
  }
  EXPECT_THAT(PullAt(store_, "d", SnapshotOf("s", 1)),
              StatusIs(StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply described,
                       Describe(store_, LatestSnapshot("s")));
  EXPECT_EQ(described.snapshot().num_parts(), 3);
  EXPECT_EQ(described.snapshot().num_keys(), 4);
  EXPECT_EQ(described.snapshot().bytes(), 4 * 2 * 4);
  EXPECT_EQ(described.snapshot().revision(), last.published->revision);
  EXPECT_EQ(described.retained_bytes(), 2 * 4);
}

TEST_P(SnapshotContractTest, OfPartsIsListedAndDigested) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  for (const std::string key : {"0", "a", "az", "b", "z"}) {
    ASSERT_OK(store_.Init(key, Full({2}, 7)));
  }
  ASSERT_OK(Publish(store_, {"a", "c"}, 1, PartOf(1, 0)));
  ASSERT_OK(Publish(store_, {"b", "y"}, 1, PartOf(1, 1)));
  EXPECT_THAT(store_.Delete({"a", "az"}), IsOkAndHolds(2));
  ASSERT_OK(store_.Init("y", Full({5}, 3), OnExisting::kReplace));
  ASSERT_OK(store_.Init("like", Full({2}, 1)));

  ListRequest list;
  *list.mutable_at() = SnapshotOf("s", 1);
  std::vector<std::string> keys;
  for (const int page_size : {0, 1}) {
    keys.clear();
    list.set_page_size(page_size);
    do {
      ASSERT_OK_AND_ASSIGN(const ListReply page, store_.Call(list));
      for (const KeyStatus& key : page.keys()) {
        keys.push_back(key.key());
        EXPECT_EQ(key.value_bytes(), 2 * 4) << key.key();
      }
      list.set_page_token(page.next_page_token());
    } while (!list.page_token().empty());
    EXPECT_THAT(keys, ElementsAre("a", "b", "c", "y"));
  }
  StatRequest stat;
  for (const std::string& key : keys) stat.add_keys(key);
  stat.set_compute_digests(true);
  *stat.mutable_at() = SnapshotOf("s", 1);
  ASSERT_OK_AND_ASSIGN(const StatReply told, store_.Call(stat));
  ASSERT_OK_AND_ASSIGN(const KeyStatus like, store_.Stat("like", true));
  for (const KeyStatus& key : told.keys()) {
    EXPECT_EQ(key.digest(), like.digest()) << key.key();
  }
}

TEST_P(SnapshotContractTest, PartsOfTwoNumbersDoNotMix) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  ASSERT_OK(Publish(store_, {"a"}, 1, PartOf(1, 0)));
  ASSERT_OK(Publish(store_, {"a"}, 2, PartOf(2, 0)));
  ASSERT_OK(Publish(store_, {"b"}, 1, PartOf(1, 1)));
  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(1));
  ASSERT_OK(Publish(store_, {"b"}, 2, PartOf(2, 1)));

  for (const uint64_t number : {1, 2}) {
    EXPECT_EQ(ValueAt(store_, "a", number), number);
    EXPECT_EQ(ValueAt(store_, "b", number), number);
  }
}

TEST_P(SnapshotContractTest, ANumberThatIsWholeFirstPassesLowerOnes) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  ASSERT_OK(Publish(store_, {"a"}, 1, PartOf(1, 0)));
  ASSERT_OK(Publish(store_, {"a"}, 2, PartOf(2, 0)));
  ASSERT_OK(Publish(store_, {"b"}, 2, PartOf(2, 1)));

  EXPECT_THAT(Publish(store_, {"b"}, 1, PartOf(1, 1)).status(),
              HasReason(Reason::kSnapshotNumberPassed));

  EXPECT_EQ(ValueAt(store_, "b", 2), 2);
  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(2));
  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
  // No part comes again once the snapshot is whole.
  EXPECT_THAT(Publish(store_, {"b"}, 3, PartOf(2, 1)).status(),
              HasReason(Reason::kSnapshotNumberPassed));
  EXPECT_EQ(Create(store_, "s"), 3);
}

TEST_P(SnapshotContractTest, APartThatComesAgainTakesThePlaceOfTheFormer) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  ASSERT_OK(Publish(store_, {"a", "b"}, 1, PartOf(1, 0)));
  ASSERT_OK_AND_ASSIGN(const InitReply again,
                       Publish(store_, {"a", "d"}, 2, PartOf(1, 0)));
  EXPECT_EQ(again.published->parts_missing, 1);
  ASSERT_OK(Publish(store_, {"b"}, 3, PartOf(1, 1)));

  EXPECT_EQ(ValueAt(store_, "a", 1), 2);
  EXPECT_EQ(ValueAt(store_, "b", 1), 3);
  EXPECT_EQ(ValueAt(store_, "d", 1), 2);
}

TEST_P(SnapshotContractTest, PartsByPrefixesHaveTheirKeysAtTheirRevision) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  for (const std::string key : {"a/1", "a/2", "b/1", "c"}) {
    ASSERT_OK(store_.Init(key, Full({2}, 1)));
  }
  PublishAs first = PartOf(1, 0);
  first.add_prefixes("a/");
  first.add_prefixes("a/1");
  ASSERT_OK(Publish(store_, {"a/1"}, 2, first));
  for (const std::string key : {"a/1", "a/2", "b/1"}) {
    ASSERT_OK(store_.Push(key, Full({2}, 3)));
  }
  PublishAs second = PartOf(1, 1);
  for (const std::string shared : {"a/2", "a", ""}) {
    second.clear_prefixes();
    second.add_prefixes(shared);
    EXPECT_THAT(Publish(store_, {"b/1"}, 4, second).status(),
                StatusIs(StatusCode::kInvalidArgument));
  }
  second.clear_prefixes();
  second.add_prefixes("b/");
  ASSERT_OK(Publish(store_, {"c"}, 4, second));

  EXPECT_EQ(ValueAt(store_, "a/1", 1), 2);
  EXPECT_EQ(ValueAt(store_, "a/2", 1), 1);
  EXPECT_EQ(ValueAt(store_, "b/1", 1), 3);
  EXPECT_THAT(PullAt(store_, "c", SnapshotOf("s", 1)),
              StatusIs(StatusCode::kNotFound));
}

TEST_P(SnapshotContractTest, PartsThatDoNotFitAreRefusedAndChangeNothing) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  ASSERT_OK(Publish(store_, {"a"}, 1, PartOf(5, 0)));
  const std::vector<std::function<void(PublishAs&)>> wrong = {
      [](auto& part) { part.mutable_part()->set_count(3); },
      [](auto& part) { part.mutable_part()->set_index(2); },
      [](auto& part) { part.mutable_part()->set_count(1025); },
      [](auto& part) { part.mutable_part()->clear_count(); },
      [](auto& part) { part.set_dtype(v1::DTYPE_BF16); },
      [](auto& part) { part.add_prefixes("b"); },
      [](auto& part) { part.clear_number(); },
      [](auto& part) { part.set_number(0); },
      [](auto& part) { part.set_expected_latest(0); },
      [](auto& part) { part.set_uid(7); },
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    PublishAs part = PartOf(5, 1);
    wrong[i](part);
    EXPECT_THAT(Publish(store_, {"b"}, 2, part).status(),
                StatusIs(StatusCode::kInvalidArgument))
        << i;
  }
  // A key of another part.
  EXPECT_THAT(Publish(store_, {"b", "a"}, 2, PartOf(5, 1)).status(),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Publish(store_, {"b"}, 2, PartOf(4, 1)).status(),
              HasReason(Reason::kSnapshotNumberPassed));

  EXPECT_THAT(store_.Pull("b"), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  ASSERT_OK(Publish(store_, {"b"}, 2, PartOf(5, 1)));
  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(5));
}

TEST_P(SnapshotContractTest, PartsHaveTheTermsOfTheFirst) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  for (const uint64_t number : {1, 2, 3}) {
    PublishAs first = PartOf(number, 1);
    first.set_keep_last(2);
    (*first.mutable_metadata())["by"] = "first";
    ASSERT_OK(Publish(store_, {"a"}, number, first));
    PublishAs second = PartOf(number, 0);
    second.set_keep_last(1);
    (*second.mutable_metadata())["by"] = "second";
    ASSERT_OK(Publish(store_, {"b"}, number, second));
  }

  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(2, 3));
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply described,
                       Describe(store_, LatestSnapshot("s")));
  EXPECT_EQ(described.snapshot().metadata().at("by"), "first");
  EXPECT_EQ(ValueAt(store_, "a", 2), 2);
}

TEST_P(SnapshotContractTest, PartsOfConcurrentRanksMakeWholeNumbers) {
  if (is_cluster()) GTEST_SKIP() << "parts are of one server";
  constexpr int kNumRanks = 4;
  constexpr int kNumRounds = 20;
  std::atomic<int> num_done = 0;
  RunConcurrently(kNumRanks + 1, [&](int rank) {
    if (rank == kNumRanks) {
      // Whatever it reads is whole, and of one number.
      for (uint64_t number = 1; num_done < kNumRanks;) {
        PullRequest pull = PullOf({}, SnapshotAtLeast("s", number));
        for (int i = 0; i < kNumRanks; ++i) {
          pull.entries.push_back({absl::StrCat("k", i)});
        }
        const absl::StatusOr<PullReply> read =
            store_.WithTimeout(absl::Seconds(1)).Call(pull);
        if (!read.ok()) continue;
        for (const Value& value : read->values) {
          EXPECT_THAT(value, HasTensor(IsFilledWith(read->snapshot_number)));
        }
        number = read->snapshot_number + 1;
      }
      return;
    }
    for (int number = 1; number <= kNumRounds; ++number) {
      EXPECT_OK(Publish(store_, {absl::StrCat("k", rank)}, number,
                        PartOf(number, rank, kNumRanks))
                    .status());
    }
    ++num_done;
  });
  EXPECT_EQ(NumbersOf(store_, "s").size(), kNumRounds);
}

}  // namespace
}  // namespace tensorkv::testing
