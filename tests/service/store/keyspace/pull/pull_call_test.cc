// Pulls of tensors that are not in host memory.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/gpu_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/key_requests.h"

namespace tensorkv {
namespace {

using testing::CallbackOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

class PullCallTest : public testing::GpuStoreTest {
 protected:
  using GpuStoreTest::GpuStoreTest;

  std::vector<uint64_t> Digests(const std::vector<std::string>& keys) {
    const StatReply reply =
        testing::MakeNow(*store_, testing::DigestsOf(keys)).value();
    std::vector<uint64_t> digests;
    for (const KeyStatus& key : reply.keys()) digests.push_back(key.digest());
    return digests;
  }
  uint64_t DigestOf(const std::string& key) { return Digests({key})[0]; }
};

TEST_F(PullCallTest, CopyForTheReaderIsCountedUntilItGoes) {
  ASSERT_OK(Init("w", Filled(1000, 7)));
  ASSERT_EQ(ValueBytes(), 4000u);
  {
    ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"w"}));
    EXPECT_EQ(ValueBytes(), 8000u);
    EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(7));
  }

  EXPECT_EQ(ValueBytes(), 4000u);
}

TEST_F(PullCallTest, CopyThatDoesNotFitTheBudgetIsRefusedBeforeItIsMade) {
  ASSERT_OK(Init("w", Filled(kHalf, 7)));
  ASSERT_OK_AND_ASSIGN(const PullReply first, Pull({"w"}));

  ExpectRefusedFromTheHost(
      [&] {
        const absl::Status status = Pull({"w"}).status();
        EXPECT_THAT(status.message(), HasSubstr("namespace \"default\""));
        return status;
      },
      absl::StatusCode::kResourceExhausted);
}

TEST_F(PullCallTest, ReplyOverTheLimitIsRefusedBeforeItIsCopied) {
  ASSERT_OK(Init("w", Filled(1000, 7)));
  gpu_.FailCall(0, absl::InternalError("the device was asked"));

  EXPECT_THAT(
      Pull({"w"}, {.max_reply_bytes = 3999}),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("expected at most 3999 bytes, got 4000; pull fewer")));

  EXPECT_FALSE(gpu_.has_injected());
  gpu_.FailCall(1'000'000, absl::OkStatus());
  EXPECT_OK(Pull({"w"}, {.max_reply_bytes = 4000}));
}

TEST_F(PullCallTest, AllCopiesAreStartedAndNobodyIsBlocked) {
  const std::vector<std::string> keys = {"a", "b", "c"};
  for (const std::string& key : keys) ASSERT_OK(Init(key, Filled(500, 7)));
  const Answer<absl::StatusOr<PullReply>> answer;
  gpu_.Hold(StreamUse::kToHost);

  store_->Pull(PullOf(keys), {}, CallbackOf(answer));

  // The order behind allocations, three copies, the record behind them.
  gpu_.WaitForQueued(StreamUse::kToHost, 5);
  EXPECT_FALSE(answer.HasArrived());
  gpu_.Release(StreamUse::kToHost);
  EXPECT_OK(answer.Wait());
}

TEST_F(PullCallTest, FailedCopyIsTheAnswerAndLeavesNothingCounted) {
  ASSERT_OK(Init("w", Filled(1000, 7)));
  // The order behind allocations, then the copy.
  gpu_.FailCall(1, absl::InternalError("injected"));

  EXPECT_THAT(Pull({"w"}), StatusIs(absl::StatusCode::kInternal, "injected"));

  EXPECT_EQ(ValueBytes(), 4000u);
}

TEST_F(PullCallTest, DigestsOfMoreThanTheBudgetAreTooMuch) {
  ASSERT_OK(Init("w", Filled(kHalf, 7)));
  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"w"}));

  ExpectRefusedFromTheHost(
      [&] {
        return testing::MakeNow(*store_, testing::DigestsOf({"w"})).status();
      },
      absl::StatusCode::kResourceExhausted);
}

// Both lie at one address when they have been copied.
TEST_F(PullCallTest, DigestOfAnEmptyTensorIsNotItsNeighbours) {
  ASSERT_OK(Init("empty", Filled(0, 0)));
  ASSERT_OK(Init("w", Filled(100, 7)));

  EXPECT_THAT(Digests({"empty", "w", "empty"}),
              ElementsAre(DigestOf("empty"), DigestOf("w"), DigestOf("empty")));
  EXPECT_NE(DigestOf("empty"), DigestOf("w"));
}

TEST_F(PullCallTest, ReplyIsOfOneMomentWhateverIsPushedWhileItIsCopied) {
  ASSERT_OK(Init("a", Filled(1000, 1)));
  ASSERT_OK(Init("b", Filled(1000, 2)));
  const Answer<absl::StatusOr<PullReply>> answer;
  gpu_.Hold(StreamUse::kToHost);
  store_->Pull(PullOf({"a", "b"}), {}, CallbackOf(answer));
  gpu_.WaitForQueued(StreamUse::kToHost, 1);

  ASSERT_OK(Push("a", Filled(1000, 10)));
  ASSERT_OK(Push("b", Filled(1000, 20)));
  gpu_.Release(StreamUse::kToHost);

  ASSERT_OK_AND_ASSIGN(const PullReply reply, answer.Wait());
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(1));
  EXPECT_THAT(reply.values[1].tensor.elements<float>(), Each(2));
  ASSERT_OK_AND_ASSIGN(const PullReply later, Pull({"a", "b"}));
  EXPECT_THAT(later.values[0].tensor.elements<float>(), Each(10));
  EXPECT_THAT(later.values[1].tensor.elements<float>(), Each(20));
}

// Digests of large values are computed one group after the other.
class LargeDigestTest : public PullCallTest {
 protected:
  LargeDigestTest() : PullCallTest(uint64_t{1} << 30) {}
};

TEST_F(LargeDigestTest, EveryGroupHasItsOwn) {
  const std::vector<std::string> keys = {"a", "b", "small", "c"};
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_OK(Init(keys[i], Filled(keys[i] == "small" ? 10 : 9'000'000, i)));
  }

  EXPECT_THAT(Digests(keys), ElementsAre(DigestOf("a"), DigestOf("b"),
                                         DigestOf("small"), DigestOf("c")));
  EXPECT_NE(DigestOf("a"), DigestOf("b"));
}

}  // namespace
}  // namespace tensorkv
