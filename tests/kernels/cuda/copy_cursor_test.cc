#include "kernels/cuda/copy_cursor.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

class CopyCursorTest : public ::testing::Test {
 protected:
  static constexpr size_t kManyPieces = 100;

  // Bytes [begin, begin + size) of `from_`, to the same place of `to_`.
  MemoryCopy Bytes(size_t begin, size_t size) {
    return {from_ + begin, to_ + begin, size};
  }

  char from_[100] = {};
  char to_[100] = {};
};

bool operator==(const MemoryCopy& a, const MemoryCopy& b) {
  return a.from == b.from && a.to == b.to && a.size_bytes == b.size_bytes;
}

MATCHER_P(IsCopy, copy, "") { return arg == copy; }

TEST_F(CopyCursorTest, LargeCopyGivesSeveralParts) {
  CopyCursor cursor({Bytes(0, 25)});

  EXPECT_THAT(cursor.Next(10, kManyPieces), ElementsAre(IsCopy(Bytes(0, 10))));
  EXPECT_THAT(cursor.Next(10, kManyPieces), ElementsAre(IsCopy(Bytes(10, 10))));
  EXPECT_FALSE(cursor.is_done());
  EXPECT_THAT(cursor.Next(10, kManyPieces), ElementsAre(IsCopy(Bytes(20, 5))));
  EXPECT_TRUE(cursor.is_done());
}

TEST_F(CopyCursorTest, SmallCopiesShareAPart) {
  CopyCursor cursor({Bytes(0, 4), Bytes(50, 5), Bytes(70, 6)});

  EXPECT_THAT(cursor.Next(10, kManyPieces),
              ElementsAre(IsCopy(Bytes(0, 4)), IsCopy(Bytes(50, 5)),
                          IsCopy(Bytes(70, 1))));
  EXPECT_THAT(cursor.Next(10, kManyPieces), ElementsAre(IsCopy(Bytes(71, 5))));
  EXPECT_TRUE(cursor.is_done());
}

TEST_F(CopyCursorTest, EmptyCopiesAreLeftOut) {
  EXPECT_TRUE(CopyCursor({}).is_done());
  EXPECT_TRUE(CopyCursor({MemoryCopy(), Bytes(3, 0)}).is_done());

  CopyCursor cursor({MemoryCopy(), Bytes(3, 2), MemoryCopy()});

  EXPECT_THAT(cursor.Next(10, kManyPieces), ElementsAre(IsCopy(Bytes(3, 2))));
  EXPECT_TRUE(cursor.is_done());
}

TEST_F(CopyCursorTest, PartHasNoMorePiecesThanAllowed) {
  CopyCursor cursor({Bytes(0, 2), Bytes(2, 3), Bytes(5, 4)});

  EXPECT_THAT(cursor.Next(100, 2),
              ElementsAre(IsCopy(Bytes(0, 2)), IsCopy(Bytes(2, 3))));
  EXPECT_THAT(cursor.Next(100, 2), ElementsAre(IsCopy(Bytes(5, 4))));
  EXPECT_TRUE(cursor.is_done());
}

}  // namespace
}  // namespace tensorkv
