#include "client/internal/transfer/delivery.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/patterned_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

Destination Into(std::string& memory) {
  return {.dtype = DType::kU8,
          .shape = Shape({static_cast<int64_t>(memory.size())}),
          .memory = absl::MakeSpan(memory)};
}

absl::string_view KeyOf(size_t i) { return i == 0 ? "first" : "second"; }

TEST(DeliveryTest, DestinationsAreOnePerKeyAndOfTheirSize) {
  std::string memory(8, ' ');
  const Destination fits = Into(memory);
  const Destination is_short = {.dtype = DType::kF32,
                                .shape = Shape({3}),
                                .memory = absl::MakeSpan(memory)};

  EXPECT_OK(CheckDestinations({fits, Destination()}, 2));
  EXPECT_THAT(CheckDestinations({fits}, 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "expected 2 destinations, one per key, got 1"));
  EXPECT_THAT(CheckDestinations({is_short}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "destination of f32[3]: expected 12 bytes, got 8"));
}

TEST(DeliveryTest, ContributionsTellWhatTheirKeysAre) {
  const auto check = [](DType pushed, DType read, int64_t num_read,
                        DType reply_dtype) {
    PushPullRequest request;
    request.dtype = reply_dtype;
    request.entries = {
        {.key = "k", .tensor = *Tensor::WithoutData(pushed, {2})}};
    std::string memory(num_read * SizeOf(read), ' ');
    return CheckContributions(request, {{.dtype = read,
                                         .shape = Shape({num_read}),
                                         .memory = absl::MakeSpan(memory)}});
  };
  constexpr DType kAsStored = DType::kUnknown;

  EXPECT_OK(check(DType::kF32, DType::kF32, 2, kAsStored));
  EXPECT_OK(check(DType::kI32, DType::kI32, 2, kAsStored));
  // The key may be stored as either.
  EXPECT_OK(check(DType::kF16, DType::kF32, 2, kAsStored));
  EXPECT_OK(check(DType::kF32, DType::kF16, 2, DType::kF16));
  EXPECT_THAT(check(DType::kF32, DType::kF32, 3, kAsStored),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "out of key \"k\": expected f32[2], got f32[3]"));
  EXPECT_THAT(check(DType::kI32, DType::kI64, 2, kAsStored),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "out of key \"k\": expected i32[2], got i64[2]"));
  EXPECT_THAT(check(DType::kF32, DType::kI32, 2, kAsStored),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(check(DType::kF32, DType::kF32, 2, DType::kF16),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DeliveryTest, ValuesHaveTheMemoryThatFits) {
  std::string memory(100, ' ');
  std::vector<Value> values = {{1, *Tensor::WithoutData(DType::kU8, {100})},
                               {1, *Tensor::WithoutData(DType::kU8, {9})}};

  PlaceInto({Into(memory), Destination()}, absl::MakeSpan(values));

  EXPECT_EQ(values[0].tensor.data(), memory.data());
  EXPECT_FALSE(values[1].tensor.has_data());
}

TEST(DeliveryTest, OneThatDoesNotFitKeepsAllWithoutMemory) {
  std::string memory(100, ' '), other(99, ' ');
  std::vector<Value> values = {{1, *Tensor::WithoutData(DType::kU8, {100})},
                               {1, *Tensor::WithoutData(DType::kU8, {100})}};

  PlaceInto({Into(memory), Into(other)}, absl::MakeSpan(values));

  EXPECT_FALSE(values[0].tensor.has_data());
  EXPECT_FALSE(values[1].tensor.has_data());
}

TEST(DeliveryTest, ValuesElsewhereAreCopied) {
  std::string memory(100, ' '), empty;
  std::vector<Value> values = {{1, Patterned(100)}, {1, Patterned(0)}};

  ASSERT_OK(Deliver({Into(memory), Into(empty)}, KeyOf, values));

  EXPECT_EQ(memory, BytesOf(Patterned(100)));
  EXPECT_EQ(values[0].tensor.data(), memory.data());
}

TEST(DeliveryTest, OneThatDoesNotFitKeepsAllFromBeingCopied) {
  std::string memory(100, ' '), other(99, ' ');
  std::vector<Value> values = {{1, Patterned(100)}, {1, Patterned(100)}};

  EXPECT_THAT(Deliver({Into(memory), Into(other)}, KeyOf, values),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "out of key \"second\": expected u8[100], got u8[99]"));

  EXPECT_EQ(memory, std::string(100, ' '));
}

}  // namespace
}  // namespace tensorkv
