// Delete, List and Stat.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "xxhash.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

template <typename Keys>
std::vector<std::string> NamesOf(const Keys& keys) {
  std::vector<std::string> names;
  for (const KeyStatus& key : keys) names.push_back(key.key());
  return names;
}

void InitAll(const Caller& store, const std::vector<std::string>& keys) {
  std::vector<InitEntry> entries;
  for (const std::string& key : keys) entries.push_back({key, Full({2}, 1)});
  ASSERT_OK(store.InitMany(std::move(entries)));
}

TEST_P(KeysContractTest, DeletedKeyIsGone) {
  InitAll(store_, {"a", "b", "c"});

  EXPECT_THAT(store_.Delete({"a", "c"}), IsOkAndHolds(2));

  EXPECT_THAT(store_.Pull("a"), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_.Push("c", Full({2}, 1)), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasVersion(1)));
}

// One version never names two values of a name.
TEST_P(KeysContractTest, KeyThatIsCreatedAgainHasAHigherVersion) {
  InitAll(store_, {"a", "b"});
  EXPECT_EQ(store_.Stat("b")->version(), 1);
  for (int i = 0; i < 3; ++i) ASSERT_OK(store_.Push("a", Full({2}, 1)));
  ASSERT_OK(store_.Delete({"a"}));

  EXPECT_THAT(store_.Init("a", Full({7}, 3, DType::kI8)), IsOkAndHolds(5));
  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
}

TEST_P(KeysContractTest, DeleteOfAnUnknownKeyRemovesNothing) {
  InitAll(store_, {"a"});

  EXPECT_THAT(store_.Delete({"a", "unknown"}),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"unknown\"")));

  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(KeysContractTest, DeleteMayIgnoreWhatIsMissing) {
  InitAll(store_, {"a"});

  EXPECT_THAT(store_.Delete({"a", "unknown", "a"}, /*allow_missing=*/true),
              IsOkAndHolds(1));

  EXPECT_THAT(store_.Pull("a"), StatusIs(StatusCode::kNotFound));
}

TEST_P(KeysContractTest, ListsInByteOrder) {
  InitAll(store_, {"b", "a/2", "a", "ä", "B", "a/10"});

  ASSERT_OK_AND_ASSIGN(const ListReply reply, store_.List());

  EXPECT_THAT(NamesOf(reply.keys()),
              ElementsAre("B", "a", "a/10", "a/2", "b", "ä"));
  EXPECT_EQ(reply.next_page_token(), "");
}

TEST_P(KeysContractTest, ListsAPrefix) {
  InitAll(store_, {"fc1.w", "fc1.b", "fc10.w", "fc2.w", "fc"});

  ASSERT_OK_AND_ASSIGN(const ListReply reply, store_.List("fc1"));

  EXPECT_THAT(NamesOf(reply.keys()), ElementsAre("fc1.b", "fc1.w", "fc10.w"));
  EXPECT_THAT(store_.List("unknown")->keys(), IsEmpty());
}

TEST_P(KeysContractTest, PagesHoldEveryKeyOnce) {
  std::vector<std::string> keys;
  for (int i = 0; i < 9; ++i) keys.push_back(absl::StrFormat("k%02d", i));
  InitAll(store_, keys);

  std::vector<std::string> listed;
  std::string token;
  do {
    ASSERT_OK_AND_ASSIGN(const ListReply page, store_.List("k", 3, token));
    EXPECT_EQ(page.keys_size(), 3);  // the last one is full, too
    for (const KeyStatus& key : page.keys()) listed.push_back(key.key());
    token = page.next_page_token();
  } while (!token.empty() && listed.size() < 20);

  EXPECT_EQ(listed, keys);
}

// 8 KiB of each key.
TEST_P(KeysContractTest, PagesOfLongRulesEndEarlier) {
  RuleSpec rule = {.name = "sgd", .schedule = {.name = "multi_factor"}};
  for (uint64_t step = 1; step <= 1024; ++step) {
    rule.schedule.steps.push_back(step);
  }
  ASSERT_OK(store_.SetRule(rule.ToString()));
  std::vector<std::string> keys;
  for (int i = 0; i < 600; ++i) keys.push_back(absl::StrFormat("k%03d", i));
  InitAll(store_, keys);

  ASSERT_OK_AND_ASSIGN(const ListReply first, store_.List());
  ASSERT_OK_AND_ASSIGN(const ListReply second,
                       store_.List("", 0, first.next_page_token()));

  ASSERT_THAT(first.keys(), Not(IsEmpty()));
  EXPECT_THAT(second.keys(), Not(IsEmpty()));
  EXPECT_EQ(first.next_page_token(), first.keys().rbegin()->key());
  EXPECT_EQ(first.keys_size() + second.keys_size(), 600);
  EXPECT_EQ(second.next_page_token(), "");
}

TEST_P(KeysContractTest, PagesGoOnWhenTheirLastKeyIsDeleted) {
  InitAll(store_, {"a", "b", "c", "d"});
  ASSERT_OK_AND_ASSIGN(const ListReply first, store_.List("", 2));

  ASSERT_OK(store_.Delete({"b"}));

  ASSERT_OK_AND_ASSIGN(const ListReply next,
                       store_.List("", 2, first.next_page_token()));
  EXPECT_THAT(NamesOf(next.keys()), ElementsAre("c", "d"));
}

TEST_P(KeysContractTest, ListShowsTheStatusOfKeys) {
  ASSERT_OK(store_.Init("w", Full({2, 3}, 1, DType::kF16)));
  ASSERT_OK(store_.Push("w", Full({2, 3}, 2, DType::kF16)));

  ASSERT_OK_AND_ASSIGN(const ListReply reply, store_.List());

  ASSERT_EQ(reply.keys_size(), 1);
  const KeyStatus& status = reply.keys(0);
  EXPECT_EQ(DTypeOf(status), DType::kF16);
  EXPECT_THAT(ShapeOf(status), IsOkAndHolds(Shape({2, 3})));
  EXPECT_EQ(status.version(), 2);
  EXPECT_EQ(status.value_bytes(), 12);
  EXPECT_FALSE(status.has_digest());
}

TEST_P(KeysContractTest, StatShowsMetadata) {
  ASSERT_OK(store_.Init("w", Full({4, 1, 2}, 1, DType::kI64)));
  ASSERT_OK(store_.Push("w", Full({4, 1, 2}, 1, DType::kI64)));

  ASSERT_OK_AND_ASSIGN(const KeyStatus status, store_.Stat("w"));

  EXPECT_EQ(status.key(), "w");
  EXPECT_EQ(DTypeOf(status), DType::kI64);
  EXPECT_THAT(ShapeOf(status), IsOkAndHolds(Shape({4, 1, 2})));
  EXPECT_EQ(status.version(), 2);
  EXPECT_EQ(status.value_bytes(), 64);
  EXPECT_EQ(status.state_bytes(), 0);
  EXPECT_EQ(status.rule().name(), "assign");
  EXPECT_FALSE(status.has_digest());
}

TEST_P(KeysContractTest, StatCountsRuleStateAndMaster) {
  ASSERT_OK(store_.SetRule("adam"));
  ASSERT_OK(store_.InitMany(
      {{"f32", Full({10}, 1)}, {"f16", Full({10}, 1, DType::kF16)}}));
  ASSERT_OK(store_.Push("f32", Full({10}, 1)));
  ASSERT_OK(store_.Push("f16", Full({10}, 1)));

  ASSERT_OK_AND_ASSIGN(const auto keys, store_.StatMany({"f32", "f16", "f32"}));

  EXPECT_THAT(NamesOf(keys), ElementsAre("f32", "f16", "f32"));
  EXPECT_EQ(keys[0].state_bytes(), 2 * 40);  // m and v
  EXPECT_EQ(keys[1].state_bytes(), 3 * 40);  // m, v and the f32 master
  EXPECT_EQ(keys[1].value_bytes(), 20);
  EXPECT_EQ(keys[1].rule().name(), "adam");
}

TEST_P(KeysContractTest, StatOfAnUnknownKeyIsNotFound) {
  InitAll(store_, {"a"});

  EXPECT_THAT(store_.StatMany({"a", "unknown"}),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"unknown\"")));
}

TEST_P(KeysContractTest, DigestIsXxh3OfTheBytes) {
  const Tensor tensor = Vector({1, -2, 3.5, 1e30});
  ASSERT_OK(store_.Init("w", tensor));
  ASSERT_OK(store_.Init("empty", Full({0}, 0)));

  EXPECT_EQ(store_.Stat("w", /*compute_digests=*/true)->digest(),
            XXH3_64bits(tensor.data(), tensor.size_bytes()));
  EXPECT_EQ(store_.Stat("empty", /*compute_digests=*/true)->digest(),
            XXH3_64bits(nullptr, 0));
}

TEST_P(KeysContractTest, DigestFollowsTheValue) {
  ASSERT_OK(store_.Init("w", Full({100}, 1)));
  const uint64_t before = store_.Stat("w", /*compute_digests=*/true)->digest();

  ASSERT_OK(store_.Push("w", Full({100}, 2)));
  EXPECT_NE(store_.Stat("w", /*compute_digests=*/true)->digest(), before);
  ASSERT_OK(store_.Push("w", Full({100}, 1)));
  EXPECT_EQ(store_.Stat("w", /*compute_digests=*/true)->digest(), before);
}

}  // namespace
}  // namespace tensorkv::testing
