#include "service/mirror/range_layout.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(RangeLayoutTest, RangesFollowEachOtherAndAreTheWholeTensor) {
  for (const uint32_t members : {1u, 2u, 3u, 7u}) {
    for (const int64_t elements :
         {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{28671}, int64_t{28672},
          int64_t{1} << 40, INT64_MAX}) {
      int64_t next = 0;
      for (uint32_t member = 0; member < members; ++member) {
        const ElementRange range = RangeOf(elements, 5, member, members);
        if (range.count == 0) continue;
        EXPECT_EQ(range.first, next) << elements << " " << member;
        next += range.count;
      }
      EXPECT_EQ(next, elements) << members;
    }
  }
}

TEST(RangeLayoutTest, LargeRangesAreEvenAndSmallTensorsTakeTurns) {
  EXPECT_EQ(RangeOf(30001, 0, 0, 3).count, 10001);
  EXPECT_EQ(RangeOf(30001, 0, 2, 3).count, 10000);

  EXPECT_EQ(RangeOf(10, 4, 1, 3).count, 10);
  EXPECT_EQ(RangeOf(10, 5, 1, 3).count, 0);
}

}  // namespace
}  // namespace tensorkv
