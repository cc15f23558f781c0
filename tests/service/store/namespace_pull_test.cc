// Pulls of tensors that are not in host memory.

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/namespace.h"
#include "tests/service/store/gpu_store.h"

namespace tensorkv {
namespace {

using testing::Answer;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::StatusIs;

class NamespacePullTest : public testing::GpuStoreTest {};

TEST_F(NamespacePullTest, CopyForTheReaderIsCountedUntilItGoes) {
  ASSERT_OK(Init("w", Filled(1000, 7)));
  ASSERT_EQ(ValueBytes(), 4000u);
  {
    ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"w"}));
    EXPECT_EQ(ValueBytes(), 8000u);
    EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(7));
  }

  EXPECT_EQ(ValueBytes(), 4000u);
}

TEST_F(NamespacePullTest, CopyThatDoesNotFitTheBudgetIsRefusedBeforeItIsMade) {
  ASSERT_OK(Init("w", Filled(kHalf, 7)));
  const uint64_t before = ValueBytes();
  gpu_.FailCall(0, absl::InternalError("the device was asked"));

  EXPECT_THAT(Pull({"w"}), StatusIs(absl::StatusCode::kResourceExhausted,
                                    HasSubstr("namespace \"default\"")));

  EXPECT_FALSE(gpu_.has_injected());
  EXPECT_EQ(ValueBytes(), before);
}

TEST_F(NamespacePullTest, ReplyOverTheLimitIsRefusedBeforeItIsCopied) {
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

TEST_F(NamespacePullTest, AllCopiesAreStartedAndNobodyIsBlocked) {
  const std::vector<std::string> keys = {"a", "b", "c"};
  for (const std::string& key : keys) ASSERT_OK(Init(key, Filled(500, 7)));
  Answer<PullReply> answer;
  gpu_.Hold(StreamUse::kToHost);

  store_->Pull(PullOf(keys), {}, answer.Callback());

  // The order behind allocations, three copies, the record behind them.
  gpu_.WaitForQueued(StreamUse::kToHost, 5);
  EXPECT_FALSE(answer.HasArrived());
  gpu_.Release(StreamUse::kToHost);
  EXPECT_OK(answer.Wait());
}

TEST_F(NamespacePullTest, FailedCopyIsTheAnswerAndLeavesNothingCounted) {
  ASSERT_OK(Init("w", Filled(1000, 7)));
  // The order behind allocations, then the copy.
  gpu_.FailCall(1, absl::InternalError("injected"));

  EXPECT_THAT(Pull({"w"}), StatusIs(absl::StatusCode::kInternal, "injected"));

  EXPECT_EQ(ValueBytes(), 4000u);
}

TEST_F(NamespacePullTest, DigestsOfMoreThanTheBudgetAreTooMuch) {
  ASSERT_OK(Init("w", Filled(kHalf, 7)));
  gpu_.FailCall(0, absl::InternalError("the device was asked"));

  EXPECT_THAT(store_->Stat({.keys = {"w"}, .with_digest = true}),
              StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_FALSE(gpu_.has_injected());
}

}  // namespace
}  // namespace tensorkv
