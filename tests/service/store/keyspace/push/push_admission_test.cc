// Pushes of tensors that are not kept in host memory.

#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/gpu_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"

namespace tensorkv {
namespace {

using testing::CallbackOf;
using testing::HasReason;

class PushAdmissionTest : public testing::GpuStoreTest {
 protected:
  void SetUp() override { ASSERT_OK(Init("w", Filled(1000, 1))); }
};

TEST_F(PushAdmissionTest, PushOfUnknownKeyCopiesNothing) {
  ExpectRefusedFromTheHost([&] { return Push("x", Filled(1000, 1)); },
                           absl::StatusCode::kNotFound);
}

TEST_F(PushAdmissionTest, PushOfAnotherShapeCopiesNothing) {
  ExpectRefusedFromTheHost([&] { return Push("w", Filled(999, 1)); },
                           absl::StatusCode::kInvalidArgument);
}

TEST_F(PushAdmissionTest, PushPullOverTheReplyLimitCopiesNothing) {
  PushPullRequest request;
  request.entries.push_back({"w", false, Filled(1000, 1)});
  const Answer<absl::StatusOr<PullReply>> answer;
  ExpectRefusedFromTheHost(
      [&] {
        store_->PushPull(std::move(request), {.max_reply_bytes = 3999},
                         CallbackOf(answer));
        return answer.Wait().status();
      },
      absl::StatusCode::kResourceExhausted);
}

TEST_F(PushAdmissionTest, PushWithoutRoomForTheValueCopiesNothing) {
  ASSERT_OK(Init("large", Filled(kHalf, 1)));
  ASSERT_OK(Init("more", Filled(50'000, 1)));
  // There is room for one copy of it, not for a second value.
  ExpectRefusedFromTheHost([&] { return Push("more", Filled(50'000, 1)); },
                           absl::StatusCode::kResourceExhausted);
}

// There is room for the push, and for a reply with the value once.
TEST_F(PushAdmissionTest, PushPullWithoutRoomForItsReplyCopiesNothing) {
  ASSERT_OK(Init("v", Filled(50'000, 1)));
  const auto push_pull = [&](int num_skipped) {
    PushPullRequest request;
    request.entries.push_back({"v", false, Filled(50'000, 1)});
    for (int i = 0; i < num_skipped; ++i) {
      request.entries.push_back({.key = "v", .skip = true});
    }
    const Answer<absl::StatusOr<PullReply>> answer;
    store_->PushPull(std::move(request), {}, CallbackOf(answer));
    return answer.Wait().status();
  };
  EXPECT_OK(push_pull(0));

  ExpectRefusedFromTheHost([&] { return push_pull(5); },
                           absl::StatusCode::kResourceExhausted);
}

// The device converts the value, for which it has no room: rows bring none.
TEST_F(PushAdmissionTest, PushPullWithoutRoomToConvertCopiesNothing) {
  ASSERT_OK(Init("large", Filled(110'000, 1)));
  ASSERT_OK(Init("v", Filled(110'000, 1)));
  ASSERT_OK_AND_ASSIGN(const RefPtr<const RowIds> rows,
                       RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 7)));
  const auto push_pull = [&](DType dtype) {
    PushPullRequest request;
    request.dtype = dtype;
    request.entries.push_back(
        {.key = "v", .tensor = Filled(1, 2), .rows = rows});
    const Answer<absl::StatusOr<PullReply>> answer;
    store_->PushPull(std::move(request), {}, CallbackOf(answer));
    return answer.Wait().status();
  };
  EXPECT_OK(push_pull(DType::kF8E5M2));

  ExpectRefusedFromTheHost([&] { return push_pull(DType::kF16); },
                           absl::StatusCode::kResourceExhausted);
}

// Its copy waits for a slot.
TEST_F(PushAdmissionTest, NamespaceThatIsDeletedMeanwhileTakesNothing) {
  ASSERT_OK(testing::MakeNow(*store_, testing::CreateOf("n")));
  InitRequest init;
  init.name_space = "n";
  init.entries.push_back({"w", Filled(1000, 1)});
  ASSERT_OK(testing::InitNow(*store_, std::move(init)));
  PushRequest push;
  push.name_space = "n";
  push.entries.push_back({"w", false, Filled(1000, 1)});
  HoldSlots();
  const Answer<absl::StatusOr<PushReply>> answer;
  std::thread pusher(
      [&] { store_->Push(std::move(push), {}, CallbackOf(answer)); });
  WaitForAllocation();

  EXPECT_OK(testing::MakeNow(*store_, testing::RemoveOf("n")));
  gpu_.Release(StreamUse::kToDevice);

  EXPECT_THAT(answer.Wait(), HasReason(Reason::kNamespaceNotFound));
  pusher.join();
}

}  // namespace
}  // namespace tensorkv
