#include "client/change_writer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/local/local_connection.h"
#include "contract/reason.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::absl::StatusCode;
using testing::BytesOf;
using testing::Full;
using testing::StatusIs;

constexpr int64_t kNumElements = 1000;
constexpr uint64_t kWholeBytes = 4 * kNumElements;

// A store in this process. Its next calls fail as a test asks.
class FailingConnection final : public Connection {
 public:
  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    absl::Status status = std::exchange(before, absl::OkStatus());
    if (status.ok()) status = store_.Attempt(call, options);
    if (!status.ok()) return status;
    return std::exchange(after, absl::OkStatus());
  }

  absl::Status before;
  absl::Status after;

 private:
  LocalConnection store_;
};

class ChangeWriterTest : public ::testing::Test {
 protected:
  ChangeWriterTest() { EXPECT_OK(client_.Init("w", Full({kNumElements}, 0))); }

  // Has 1 everywhere but at 0, where it has `element`.
  static Tensor TensorWith(float element) {
    Tensor tensor = Full({kNumElements}, 1);
    tensor.mutable_elements<float>()[0] = element;
    return tensor;
  }
  absl::Status Push(const Tensor& tensor) {
    return writer_.Push(client_, {{.key = "w", .tensor = tensor}}).status();
  }
  void ExpectStored(const Tensor& tensor) {
    ASSERT_OK_AND_ASSIGN(const Value value, client_.Pull("w"));
    EXPECT_EQ(BytesOf(value.tensor), BytesOf(tensor));
  }

  std::unique_ptr<FailingConnection> owned_ =
      std::make_unique<FailingConnection>();
  FailingConnection& connection_ = *owned_;
  Client client_{std::move(owned_), {.target = "local"}};
  ChangeWriter writer_;
};

TEST_F(ChangeWriterTest, SendsTheWholeThenWhatHasChanged) {
  ASSERT_OK(Push(TensorWith(1)));
  EXPECT_EQ(writer_.counts().bytes, kWholeBytes);

  for (const float element : {2, 3, 3}) {
    ASSERT_OK(Push(TensorWith(element)));
    ExpectStored(TensorWith(element));
  }

  EXPECT_EQ(writer_.counts().wholes, 1);
  EXPECT_EQ(writer_.counts().deltas, 3);
  EXPECT_LT(writer_.counts().bytes, kWholeBytes + 100);
}

TEST_F(ChangeWriterTest, SendsTheWholeWhereAllHasChanged) {
  ASSERT_OK(Push(TensorWith(1)));
  Tensor other = TensorWith(1);
  for (int64_t i = 0; i < kNumElements; ++i) {
    other.mutable_elements<float>()[i] = 1 / static_cast<float>(i * i + 3);
  }

  ASSERT_OK(Push(other));

  ExpectStored(other);
  EXPECT_EQ(writer_.counts().rejected, 0);
}

TEST_F(ChangeWriterTest, WhereSomebodyElseHasWrittenItSendsTheWhole) {
  ASSERT_OK(Push(TensorWith(1)));
  ASSERT_OK(client_.Push("w", TensorWith(9)));

  ASSERT_OK(Push(TensorWith(2)));

  ExpectStored(TensorWith(2));
  EXPECT_EQ(writer_.counts().rejected, 1);
  ASSERT_OK(Push(TensorWith(3)));
  EXPECT_EQ(writer_.counts().deltas, 2);
}

TEST_F(ChangeWriterTest, AfterARefusalItGoesOnFromWhatItHolds) {
  ASSERT_OK(Push(TensorWith(1)));
  connection_.before = absl::ResourceExhaustedError("test");

  EXPECT_THAT(Push(TensorWith(2)), StatusIs(StatusCode::kResourceExhausted));

  ASSERT_OK(Push(TensorWith(3)));
  EXPECT_EQ(writer_.counts().wholes, 1);
  ExpectStored(TensorWith(3));
}

TEST_F(ChangeWriterTest, AfterALostAnswerItFindsOut) {
  ASSERT_OK(Push(TensorWith(1)));
  connection_.after = absl::DeadlineExceededError("test");

  EXPECT_THAT(Push(TensorWith(2)), StatusIs(StatusCode::kDeadlineExceeded));

  ASSERT_OK(Push(TensorWith(3)));
  EXPECT_EQ(writer_.counts().rejected, 1);
  ExpectStored(TensorWith(3));
}

// Whole or not, afterwards the key would have another value than was pushed.
TEST_F(ChangeWriterTest, WhatDoesNotBecomeTheValueIsRefused) {
  ASSERT_OK(Push(TensorWith(1)));
  const PushEntry entry = {.key = "w", .tensor = TensorWith(2)};
  const auto is_refused = StatusIs(StatusCode::kInvalidArgument);

  EXPECT_THAT(writer_.Push(client_, {entry, entry}), is_refused);
  EXPECT_THAT(Push(Full({kNumElements}, 1, DType::kBF16)), is_refused);
  ASSERT_OK(client_.SetRule(*ParseRuleSpec("accumulate")));
  EXPECT_THAT(Push(TensorWith(2)), is_refused);
  writer_.Clear();
  EXPECT_THAT(Push(TensorWith(2)), is_refused);

  ExpectStored(TensorWith(1));
  ASSERT_OK(client_.SetRule(*ParseRuleSpec("assign")));
  ASSERT_OK(Push(TensorWith(2)));
  ExpectStored(TensorWith(2));
}

TEST_F(ChangeWriterTest, OfManyKeysOneThatIsAnotherGoesWhole) {
  ASSERT_OK(client_.Init("v", Full({kNumElements}, 0)));
  const auto push = [&](float element) {
    return writer_
        .Push(client_, {{.key = "v", .tensor = TensorWith(element)},
                        {.key = "w", .tensor = TensorWith(element)}})
        .status();
  };
  ASSERT_OK(push(1));
  ASSERT_OK(client_.Push("w", TensorWith(9)));
  const uint64_t before = writer_.counts().bytes;

  ASSERT_OK(push(2));

  EXPECT_EQ(writer_.counts().rejected, 1);
  EXPECT_LT(writer_.counts().bytes - before, kWholeBytes + 200);
  ExpectStored(TensorWith(2));
  EXPECT_EQ(BytesOf(client_.Pull("v")->tensor), BytesOf(TensorWith(2)));
}

TEST_F(ChangeWriterTest, WhoTakesNoDeltasOrHasTakenSomeGetsTheWhole) {
  for (const absl::Status& status :
       {absl::UnimplementedError("test"),
        WithReason(absl::FailedPreconditionError("test"),
                   Reason::kOutcomeUnknown)}) {
    ASSERT_OK(Push(TensorWith(1)));
    connection_.before = status;

    ASSERT_OK(Push(TensorWith(2)));
    ExpectStored(TensorWith(2));
  }
  EXPECT_EQ(writer_.counts().rejected, 2);
}

TEST_F(ChangeWriterTest, AllOfItHasOneTimeout) {
  EXPECT_THAT(writer_.Push(client_, {{.key = "w", .tensor = TensorWith(2)}}, {},
                           absl::ZeroDuration()),
              StatusIs(StatusCode::kDeadlineExceeded));
}

TEST_F(ChangeWriterTest, AfterClearTheWholeIsSent) {
  ASSERT_OK(Push(TensorWith(1)));

  writer_.Clear();
  ASSERT_OK(Push(TensorWith(2)));

  EXPECT_EQ(writer_.counts().wholes, 2);
}

TEST_F(ChangeWriterTest, PublishesWhatItPushes) {
  PublishAs publish_as;
  publish_as.set_series("s");
  for (const float element : {1, 2, 3}) {
    ASSERT_OK_AND_ASSIGN(
        const PushReply reply,
        writer_.Push(client_, {{.key = "w", .tensor = TensorWith(element)}},
                     {.publish_as = publish_as}));
    ASSERT_TRUE(reply.published);
    EXPECT_EQ(reply.published->number, element);
  }

  ASSERT_OK_AND_ASSIGN(
      const PullReply published,
      client_.Pull(PullRequest{.entries = {{"w"}}, .at = LatestSnapshot("s")}));
  EXPECT_EQ(BytesOf(published.values.front().tensor), BytesOf(TensorWith(3)));
  EXPECT_EQ(writer_.counts().deltas, 2);
}

}  // namespace
}  // namespace tensorkv
