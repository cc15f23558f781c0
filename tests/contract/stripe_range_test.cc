#include "contract/stripe_range.h"

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace stripe_range_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOkAndHolds;
using testing::StatusIs;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr uint64_t kMaxTotal = std::numeric_limits<int64_t>::max();

// --- Sizes ------------------------------------------------------------------

TEST(TensorSizesTest, EntriesToSkipHaveNone) {
  std::vector<PushEntry> entries(3);
  entries[0].tensor = *Tensor::WithoutData(DType::kF64, {2, 3});
  entries[1].skip = true;
  entries[2].tensor = *Tensor::WithoutData(DType::kU8, {});

  EXPECT_THAT(TensorSizes(entries), ElementsAre(48, 0, 1));
}

TEST(TotalBytesTest, AddsUp) {
  EXPECT_THAT(TotalBytes({}), IsOkAndHolds(0));
  EXPECT_THAT(TotalBytes({1, 0, 2}), IsOkAndHolds(3));
  EXPECT_THAT(TotalBytes({kMaxTotal - 1, 1}), IsOkAndHolds(kMaxTotal));
}

TEST(TotalBytesTest, OverflowIsInvalid) {
  EXPECT_THAT(TotalBytes({kMaxTotal, 1}),
              StatusIs(kInvalid, HasSubstr("fewer than 2^63 bytes")));
  EXPECT_THAT(TotalBytes({kMaxTotal + 1}), StatusIs(kInvalid));
}

// --- Stripes ----------------------------------------------------------------

TEST(StripeRangeTest, StripesBeginAtMultiplesOf64) {
  EXPECT_THAT(StripeRange(1000, {0, 3}), IsOkAndHolds(ByteRange{0, 384}));
  EXPECT_THAT(StripeRange(1000, {1, 3}), IsOkAndHolds(ByteRange{384, 768}));
  EXPECT_THAT(StripeRange(1000, {2, 3}), IsOkAndHolds(ByteRange{768, 1000}));
  EXPECT_THAT(StripeRange(128, {1, 2}), IsOkAndHolds(ByteRange{64, 128}));
}

TEST(StripeRangeTest, LastStripesOfASmallPayloadAreEmpty) {
  EXPECT_THAT(StripeRange(100, {1, 64}), IsOkAndHolds(ByteRange{64, 100}));
  EXPECT_THAT(StripeRange(100, {2, 64}), IsOkAndHolds(ByteRange{100, 100}));
  EXPECT_THAT(StripeRange(100, {63, 64}), IsOkAndHolds(ByteRange{100, 100}));
}

TEST(StripeRangeTest, StripesOfAnyPayloadFollowOneAnother) {
  for (uint64_t total : {1ul, 63ul, 64ul, 65ul, 12'345'678'901ul, kMaxTotal}) {
    for (uint32_t count = 1; count <= kMaxStripes; ++count) {
      uint64_t end = 0;
      for (uint32_t index = 0; index < count; ++index) {
        ASSERT_OK_AND_ASSIGN(const ByteRange range,
                             StripeRange(total, {index, count}));
        ASSERT_EQ(range.begin, end);
        ASSERT_LE(range.begin, range.end);
        end = range.end;
      }
      ASSERT_EQ(end, total);
    }
  }
}

TEST(StripeRangeTest, ImpossibleStripesAreInvalid) {
  EXPECT_THAT(StripeRange(100, {4, 4}),
              StatusIs(kInvalid, "stripe: expected an index below 4, got 4"));
  EXPECT_THAT(
      StripeRange(100, {0, 65}),
      StatusIs(kInvalid, "stripe: expected a count of 1 to 64, got 65"));
  EXPECT_THAT(StripeRange(100, {0, 0}),
              StatusIs(kInvalid, "stripe: expected a count of 1 to 64, got 0"));
  EXPECT_THAT(StripeRange(kMaxTotal + 1, Stripe()), StatusIs(kInvalid));
}

// --- What is sent -----------------------------------------------------------

std::vector<PartRange> AllParts(PartCursor cursor, uint64_t max_bytes) {
  std::vector<PartRange> parts;
  while (const std::optional<PartRange> part = cursor.Next(max_bytes)) {
    parts.push_back(*part);
  }
  return parts;
}

TEST(PartCursorTest, PartsAreBoundedAndDoNotSpanEntries) {
  EXPECT_THAT(
      AllParts(PartCursor({5, 3}, {0, 8}), 2),
      ElementsAre(PartRange{0, 0, 2}, PartRange{0, 2, 2}, PartRange{0, 4, 1},
                  PartRange{1, 0, 2}, PartRange{1, 2, 1}));
}

TEST(PartCursorTest, EmptyEntriesHaveNoParts) {
  EXPECT_THAT(AllParts(PartCursor({0, 0, 2, 0, 1, 0}, {0, 3}), 100),
              ElementsAre(PartRange{2, 0, 2}, PartRange{4, 0, 1}));
  EXPECT_THAT(AllParts(PartCursor({0, 0}, {0, 0}), 100), ElementsAre());
  EXPECT_THAT(AllParts(PartCursor({}, {0, 0}), 100), ElementsAre());
}

TEST(PartCursorTest, RangeBeginsAndEndsWithinEntries) {
  EXPECT_THAT(AllParts(PartCursor({10, 0, 10, 10}, {12, 23}), 100),
              ElementsAre(PartRange{2, 2, 8}, PartRange{3, 0, 3}));
  EXPECT_THAT(AllParts(PartCursor({10, 0, 10}, {10, 20}), 100),
              ElementsAre(PartRange{2, 0, 10}));
  EXPECT_THAT(AllParts(PartCursor({10, 10}, {20, 20}), 100), ElementsAre());
}

TEST(PartCursorTest, EntriesMayBeLargerThanAnyMemory) {
  constexpr uint64_t kHuge = uint64_t{1} << 62;

  EXPECT_THAT(AllParts(PartCursor({1, kHuge}, {kHuge - 1, kHuge + 1}), kHuge),
              ElementsAre(PartRange{1, kHuge - 2, 2}));
}

// --- What is received -------------------------------------------------------

TEST(PartCursorTest, AcceptsWhatAnySenderCutsAsItLikes) {
  PartCursor cursor({5, 0, 3}, {0, 8});

  EXPECT_OK(cursor.Accept({0, 0, 4}));
  EXPECT_OK(cursor.Accept({0, 4, 1}));
  EXPECT_FALSE(cursor.is_complete());
  EXPECT_EQ(cursor.bytes_left(), 3);
  EXPECT_OK(cursor.Accept({2, 0, 3}));
  EXPECT_TRUE(cursor.is_complete());
  EXPECT_OK(cursor.CheckComplete());
}

TEST(PartCursorTest, PayloadWithoutBytesIsCompleteAtOnce) {
  PartCursor cursor({0, 0}, {0, 0});

  EXPECT_TRUE(cursor.is_complete());
  EXPECT_OK(cursor.CheckComplete());
  EXPECT_OK(cursor.Accept({0, 0, 0}));
  EXPECT_THAT(cursor.Accept({0, 0, 1}), StatusIs(kInvalid));
}

struct BadPart {
  PartRange part;
  std::string message;
};

class BadPartTest : public ::testing::TestWithParam<BadPart> {};

// After the first 4 of 10 bytes of entry 1, in a stripe that ends after 2 of
// the 10 bytes of entry 2.
TEST_P(BadPartTest, IsInvalidAndChangesNothing) {
  PartCursor cursor({10, 10, 10}, {10, 22});
  ASSERT_OK(cursor.Accept({1, 0, 4}));

  EXPECT_THAT(cursor.Accept(GetParam().part),
              StatusIs(kInvalid, GetParam().message));
  EXPECT_OK(cursor.Accept({1, 4, 6}));
  EXPECT_OK(cursor.Accept({2, 0, 2}));
  EXPECT_OK(cursor.CheckComplete());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPartTest,
    ::testing::Values(
        BadPart{{1, 0, 4},  // again
                "part: expected entry 1 at offset 4, got entry 1 at offset 0"},
        BadPart{{1, 3, 4},  // overlapping
                "part: expected entry 1 at offset 4, got entry 1 at offset 3"},
        BadPart{{1, 5, 1},  // a gap
                "part: expected entry 1 at offset 4, got entry 1 at offset 5"},
        BadPart{{2, 0, 2},  // out of order
                "part: expected entry 1 at offset 4, got entry 2 at offset 0"},
        BadPart{{7, 4, 1},  // no such entry
                "part: expected entry 1 at offset 4, got entry 7 at offset 4"},
        BadPart{
            {1, 4, 7},  // spanning
            "part of entry 1 at offset 4: expected at most 6 bytes, which end "
            "the entry, got 7"},
        BadPart{
            {1, 4, std::numeric_limits<uint64_t>::max()},
            "part of entry 1 at offset 4: expected at most 6 bytes, which end "
            "the entry, got 18446744073709551615"},
        BadPart{
            {1, 11, 0},  // empty, beyond its entry
            "part: expected entry 1 at offset 4, got entry 1 at offset 11"}));

TEST(PartCursorTest, EmptyPartsBringNothing) {
  PartCursor cursor({4, 0, 10}, {0, 14});
  ASSERT_OK(cursor.Accept({0, 0, 4}));

  EXPECT_OK(cursor.Accept({1, 0, 0}));
  EXPECT_OK(cursor.Accept({2, 0, 0}));
  EXPECT_OK(cursor.Accept({2, 0, 10}));
  EXPECT_OK(cursor.Accept({2, 10, 0}));
  EXPECT_TRUE(cursor.is_complete());
}

TEST(PartCursorTest, PartBeyondTheStripeIsInvalid) {
  PartCursor cursor({10, 10}, {0, 12});
  ASSERT_OK(cursor.Accept({0, 0, 10}));

  EXPECT_THAT(cursor.Accept({1, 0, 3}),
              StatusIs(kInvalid,
                       "part of entry 1 at offset 0: expected at most 2 bytes, "
                       "which end the stream, got 3"));
}

TEST(PartCursorTest, PartAfterTheEndIsInvalid) {
  PartCursor cursor({10}, {0, 10});
  ASSERT_OK(cursor.Accept({0, 0, 10}));

  EXPECT_THAT(cursor.Accept({0, 10, 1}),
              StatusIs(kInvalid,
                       "part: expected none after all 10 bytes of the stream, "
                       "got entry 0 at offset 10"));
}

TEST(PartCursorTest, EndBeforeTheLastByteIsInvalid) {
  PartCursor cursor({10}, {0, 10});
  ASSERT_OK(cursor.Accept({0, 0, 4}));

  EXPECT_THAT(cursor.CheckComplete(),
              StatusIs(kInvalid, "parts: expected 10 bytes, got 4"));
}

// --- Both -------------------------------------------------------------------

TEST(PartCursorTest, ReceiverAcceptsWhatTheSenderOfAnyStripeSends) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> sizes(random() % 20);
    for (uint64_t& size : sizes) size = random() % 300;
    const uint64_t total = TotalBytes(sizes).value();
    const uint32_t count = 1 + random() % kMaxStripes;
    uint64_t bytes = 0;
    for (uint32_t index = 0; index < count; ++index) {
      ASSERT_OK_AND_ASSIGN(const ByteRange range,
                           StripeRange(total, {index, count}));
      PartCursor receiver(sizes, range);
      for (const PartRange& part :
           AllParts(PartCursor(sizes, range), 1 + random() % 200)) {
        ASSERT_OK(receiver.Accept(part));
        bytes += part.size_bytes;
      }
      ASSERT_OK(receiver.CheckComplete());
    }
    ASSERT_EQ(bytes, total);
  }
}

}  // namespace stripe_range_test
}  // namespace tensorkv
