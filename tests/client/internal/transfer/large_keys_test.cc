#include "client/internal/transfer/large_keys.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/encoding.h"
#include "gtest/gtest.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Vector;

constexpr uint64_t kMiB = 1 << 20;

// What goes as a stream begins at 1 MiB.
StreamPolicy Policy() {
  return StreamPolicy({.stream_threshold_bytes = kMiB}, 64 * kMiB);
}

Tensor KiB(int64_t size) {
  return *Tensor::WithoutData(DType::kU8, Shape({size << 10}));
}

PullRequest PullOf(const std::vector<std::string>& keys,
                   const std::string& name_space = "") {
  PullRequest request = {.name_space = name_space};
  for (const std::string& key : keys) request.entries.push_back({key});
  return request;
}

class LargeKeysTest : public ::testing::Test {
 protected:
  LargeKeys keys_{Policy(), /*max_known=*/1000};
};

TEST_F(LargeKeysTest, LearnsFromWhatGoesAndComes) {
  keys_.Learn(InitRequest{.entries = {{"a", KiB(1024)}}});
  keys_.Learn(PushRequest{.entries = {{.key = "b", .tensor = KiB(1024)}}});
  keys_.Learn(PullOf({"c"}), PullReply{.values = {{1, KiB(1024)}}},
              /*expected_bytes=*/0);
  // Which teaches nothing.
  keys_.Learn(PushRequest{.entries = {{.key = "a", .skip = true},
                                      {.key = "d", .tensor = KiB(1024)}}});

  for (const char* key : {"a", "b", "c"}) {
    EXPECT_EQ(keys_.ExpectedBytes(PullOf({key})), kMiB) << key;
  }
}

TEST_F(LargeKeysTest, StatesAreAsLargeAsTheyWereSetOrRead) {
  keys_.Learn(InitRequest{.entries = {{"w", KiB(1024)}}});
  keys_.Learn(SetStateRequest{.entries = {{"w", "mean", KiB(2048)}}});
  const auto get = [](const char* state) {
    return GetStateRequest{.entries = {{"w", state}}};
  };
  keys_.Learn(get("variance"), PullReply{.values = {{1, KiB(4096)}}},
              /*expected_bytes=*/0);

  EXPECT_EQ(keys_.ExpectedBytes(get("mean")), 2 * kMiB);
  EXPECT_EQ(keys_.ExpectedBytes(get("variance")), 4 * kMiB);
  EXPECT_EQ(keys_.ExpectedBytes(get("other")), 0);
  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), kMiB);
}

TEST_F(LargeKeysTest, PushPullBringsBackWhatIsSkippedOrNarrow) {
  keys_.Learn(InitRequest{.entries = {{"w", KiB(1024)}}});
  const auto expected_bytes = [&](const PushEntry& entry) {
    return keys_.ExpectedBytes(PushRequest{.entries = {entry}});
  };

  EXPECT_EQ(expected_bytes({.key = "w", .skip = true}), kMiB);
  EXPECT_EQ(expected_bytes({.key = "w", .tensor = KiB(128)}), kMiB);
  EXPECT_EQ(expected_bytes({.key = "w", .tensor = KiB(127)}), 0);
}

TEST_F(LargeKeysTest, GuessesBytesByTheLastListThatWasPulled) {
  PullReply list;
  list.values.resize(20, {1, KiB(3)});
  EXPECT_EQ(keys_.GuessedBytes(1000), 0);

  keys_.Learn(PullOf({}), list, /*expected_bytes=*/0);
  keys_.Learn(PullOf({"w"}), PullReply{.values = {{1, KiB(1)}}},
              /*expected_bytes=*/0);

  EXPECT_EQ(keys_.GuessedBytes(1000), 3000 << 10);
}

TEST_F(LargeKeysTest, RowsAreExpectedAsTheirLastPullBroughtThem) {
  PullRequest rows = PullOf({"w"});
  rows.entries[0].rows = *RowIds::Create(Vector({1, 2}, DType::kI64));
  keys_.Learn(rows, PullReply{.values = {{1, KiB(1024)}}},
              /*expected_bytes=*/0);

  EXPECT_EQ(keys_.ExpectedBytes(rows), kMiB);
  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 0);
}

TEST_F(LargeKeysTest, SmallKeysAreNotKept) {
  keys_.Learn(InitRequest{.entries = {{"w", KiB(1023)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 0);
}

TEST_F(LargeKeysTest, KeysOfOtherNamespacesAreOthers) {
  keys_.Learn(InitRequest{.name_space = "a", .entries = {{"w", KiB(1024)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"}, "b")), 0);
}

TEST_F(LargeKeysTest, KeysThatBecomeSmallAreForgotten) {
  keys_.Learn(InitRequest{.entries = {{"w", KiB(1024)}}});

  keys_.Learn(PullOf({"w"}), PullReply{.values = {{2, KiB(10)}}},
              /*expected_bytes=*/1024 << 10);

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 0);
}

TEST_F(LargeKeysTest, LargeKeysAddUp) {
  keys_.Learn(InitRequest{.entries = {{"a", KiB(1024)}, {"b", KiB(3072)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"b", "x", "a", "a"})), 5 * kMiB);
}

TEST_F(LargeKeysTest, SmallKeysThatAreLargeTogetherAreKnownTogether) {
  keys_.Learn(InitRequest{.entries = {{"a", KiB(600)}, {"b", KiB(700)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"a", "b"})), 1300 << 10);
  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"a"})), 0);
}

TEST_F(LargeKeysTest, ManySmallKeysAreNotKeptHoweverMuchTheyAre) {
  InitRequest request;
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    keys.push_back(absl::StrCat("k", i));
    request.entries.push_back({keys.back(), KiB(32)});
  }

  keys_.Learn(request);

  EXPECT_EQ(keys_.ExpectedBytes(PullOf(keys)), 0);
}

TEST_F(LargeKeysTest, EncodedPushesCountAsWhatTheyDecodeTo) {
  // 1 MiB of f32 in 64 KiB.
  const PushRequest push = {
      .entries = {{.key = "w",
                   .tensor = KiB(64),
                   .encoding = *Encoding::Create(
                       {.kind = PackingKind::kTwoBit, .scale = 1}, DType::kF32,
                       Shape({kMiB / 4}))}}};

  keys_.Learn(push);

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), kMiB);
  EXPECT_EQ(keys_.ExpectedBytes(push), kMiB);
}

TEST_F(LargeKeysTest, ReplyThatDoesNotFitTeachesNothing) {
  keys_.Learn(PullOf({"w"}),
              PullReply{.values = {{1, KiB(1024)}, {1, KiB(1024)}}},
              /*expected_bytes=*/0);

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 0);
}

TEST(LargeKeysLimitTest, NoMoreKeysAreKeptThanAllowed) {
  LargeKeys keys(Policy(), /*max_known=*/10);
  uint64_t known = 0;

  for (int i = 0; i < 100; ++i) {
    keys.Learn(InitRequest{.entries = {{absl::StrCat("k", i), KiB(1024)}}});
  }

  for (int i = 0; i < 100; ++i) {
    known += keys.ExpectedBytes(PullOf({absl::StrCat("k", i)}));
  }
  EXPECT_EQ(known, 10 * kMiB);
}

}  // namespace
}  // namespace tensorkv
