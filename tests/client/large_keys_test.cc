#include "client/large_keys.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

Tensor Bytes(int64_t size) {
  return *Tensor::WithoutData(DType::kU8, Shape({size}));
}

PullRequest PullOf(const std::vector<std::string>& keys,
                   const std::string& name_space = "") {
  PullRequest request = {.name_space = name_space};
  for (const std::string& key : keys) request.entries.push_back({key});
  return request;
}

class LargeKeysTest : public ::testing::Test {
 protected:
  LargeKeys keys_{/*threshold_bytes=*/100, /*max_known=*/1000};
};

TEST_F(LargeKeysTest, KnowsNothingAtFirst) {
  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 0);
}

TEST_F(LargeKeysTest, LearnsFromInit) {
  keys_.Learn(InitRequest{.entries = {{"w", Bytes(100)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 100);
}

TEST_F(LargeKeysTest, LearnsFromPush) {
  keys_.Learn(PushRequest{.entries = {{.key = "w", .tensor = Bytes(100)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 100);
}

TEST_F(LargeKeysTest, LearnsFromPull) {
  keys_.Learn(PullOf({"w"}), PullReply{.values = {{1, Bytes(100)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 100);
}

TEST_F(LargeKeysTest, SmallKeysAreNotKept) {
  keys_.Learn(InitRequest{.entries = {{"w", Bytes(99)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 0);
}

TEST_F(LargeKeysTest, KeysOfOtherNamespacesAreOthers) {
  keys_.Learn(InitRequest{.name_space = "a", .entries = {{"w", Bytes(100)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"}, "b")), 0);
}

TEST_F(LargeKeysTest, KeysThatBecomeSmallAreForgotten) {
  keys_.Learn(InitRequest{.entries = {{"w", Bytes(100)}}});

  keys_.Learn(PullOf({"w"}), PullReply{.values = {{2, Bytes(10)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 0);
}

TEST_F(LargeKeysTest, LargeKeysAddUp) {
  keys_.Learn(InitRequest{.entries = {{"a", Bytes(100)}, {"b", Bytes(300)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"b", "x", "a", "a"})), 500);
}

TEST_F(LargeKeysTest, SmallKeysThatAreLargeTogetherAreKnownTogether) {
  keys_.Learn(InitRequest{.entries = {{"a", Bytes(60)}, {"b", Bytes(70)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"a", "b"})), 130);
  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"a"})), 0);
}

TEST_F(LargeKeysTest, PushPullBringsBackWhatIsSkipped) {
  keys_.Learn(InitRequest{.entries = {{"w", Bytes(100)}}});

  EXPECT_EQ(
      keys_.ExpectedBytes(PushRequest{.entries = {{.key = "w", .skip = true}}}),
      100);
}

TEST_F(LargeKeysTest, SkippedEntriesTeachNothing) {
  keys_.Learn(InitRequest{.entries = {{"w", Bytes(100)}}});

  keys_.Learn(PushRequest{.entries = {{.key = "w", .skip = true}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 100);
}

TEST_F(LargeKeysTest, ReplyThatDoesNotFitTeachesNothing) {
  keys_.Learn(PullOf({"w"}),
              PullReply{.values = {{1, Bytes(100)}, {1, Bytes(100)}}});

  EXPECT_EQ(keys_.ExpectedBytes(PullOf({"w"})), 0);
}

TEST(LargeKeysLimitTest, NoMoreKeysAreKeptThanAllowed) {
  LargeKeys keys(/*threshold_bytes=*/1, /*max_known=*/10);
  uint64_t known = 0;

  for (int i = 0; i < 100; ++i) {
    keys.Learn(InitRequest{.entries = {{absl::StrCat("k", i), Bytes(1)}}});
  }

  for (int i = 0; i < 100; ++i) {
    known += keys.ExpectedBytes(PullOf({absl::StrCat("k", i)}));
  }
  EXPECT_EQ(known, 10);
}

}  // namespace
}  // namespace tensorkv
