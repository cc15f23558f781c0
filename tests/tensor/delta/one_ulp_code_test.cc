#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/delta/delta_decoder.h"
#include "tensor/delta/delta_encoder.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAreArray;

using Elements = std::vector<uint16_t>;

// Has elements of 0 but for those that `changes` has as pairs of position and
// value.
Elements With(size_t size, std::vector<std::pair<size_t, uint16_t>> changes) {
  Elements elements(size);
  for (const auto& [position, value] : changes) elements[position] = value;
  return elements;
}

// Returns the bytes of the only block, a code of one ulp that is not
// compressed, without its header.
std::vector<uint8_t> CodeOf(const Elements& to) {
  const Elements from(to.size());
  const auto size = static_cast<int64_t>(to.size());
  const auto delta =
      EncodeDelta({DType::kBF16, size, from.data()},
                  {DType::kBF16, size, to.data()}, {DeltaEncoding::kOneUlp});
  if (!delta || (*delta)[0] != static_cast<char>(DeltaEncoding::kOneUlp)) {
    return {};
  }
  return {delta->begin() + kBlockHeaderBytes, delta->end()};
}

TEST(OneUlpCodeTest, ChangeOfOneUlpIsAByteOfGapAndSign) {
  EXPECT_THAT(CodeOf(With(32, {{0, 1}, {4, 0xffff}})),
              ElementsAreArray({2, 0, 0, 0, 0, 3 * 2 + 1}));
}

TEST(OneUlpCodeTest, LongestGapOfAByteIs125) {
  EXPECT_THAT(CodeOf(With(200, {{125, 1}})),
              ElementsAreArray({1, 0, 0, 0, 250}));
}

TEST(OneUlpCodeTest, LongerGapsAreSkippedBefore) {
  EXPECT_THAT(CodeOf(With(200, {{126, 1}})),
              ElementsAreArray({2, 0, 0, 0, 252, 0}));
  EXPECT_THAT(CodeOf(With(1000, {{0x201, 1}})),
              ElementsAreArray({4, 0, 0, 0, 253, 0x01, 0x02, 0}));
}

TEST(OneUlpCodeTest, LargerChangesHaveAMagnitude) {
  EXPECT_THAT(CodeOf(With(32, {{0, 2}, {1, 0xfffd}, {2, 1000}})),
              ElementsAreArray({6, 0, 0, 0, 254, 0, 254, 1, 254, 0,  //
                                0, 1, 255, 0xe8, 0x03}));
}

// Decodes a block of 32 elements that has `code`.
absl::Status Decode(std::vector<uint8_t> code) {
  std::string delta = {static_cast<char>(DeltaEncoding::kOneUlp),
                       static_cast<char>(code.size()), 0, 0, 0};
  delta.append(code.begin(), code.end());
  const Elements from(32);
  Elements to(32);
  return DecodeDelta(delta, 0, {DType::kBF16, 32, from.data()},
                     {DType::kBF16, 32, to.data()});
}

TEST(OneUlpCodeTest, WhatNobodyWritesIsMalformed) {
  const std::vector<uint8_t> malformed[] = {
      {},                            // no number of codes
      {2, 0, 0, 0, 0},               // more codes than there are
      {1, 0, 0, 0, 64},              // an element after the last
      {1, 0, 0, 0, 255},             // no code
      {2, 0, 0, 0, 253, 1},          // a number that is cut
      {1, 0, 0, 0, 254, 0},          // no change after it
      {2, 0, 0, 0, 254, 252, 0},     // another than a change after it
      {2, 0, 0, 0, 254, 0},          // no magnitude
      {2, 0, 0, 0, 254, 0, 255, 1},  // a magnitude that is cut
      {1, 0, 0, 0, 0, 0},            // a magnitude of nothing
  };
  for (const std::vector<uint8_t>& code : malformed) {
    EXPECT_THAT(Decode(code),
                testing::StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(Decode({1, 0, 0, 0, 0}),
              testing::StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace tensorkv
