#include "kernels/cuda/copy_cursor.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;

// 200 bytes, of which `size` from `begin` on go to the same place of others.
class CopyCursorTest : public ::testing::Test {
 protected:
  MemoryCopy Bytes(size_t begin, size_t size) {
    return {from_ + begin, to_ + begin, size};
  }

  char from_[200] = {};
  char to_[200] = {};
};

MATCHER_P2(IsPiece, copy, offset, "") {
  return arg.copy.from == copy.from && arg.copy.to == copy.to &&
         arg.copy.size_bytes == copy.size_bytes &&
         arg.offset == static_cast<size_t>(offset);
}

TEST_F(CopyCursorTest, LargeCopyGivesSeveralParts) {
  CopyCursor cursor({Bytes(0, 150)});

  EXPECT_THAT(cursor.Next(64), ElementsAre(IsPiece(Bytes(0, 64), 0)));
  EXPECT_THAT(cursor.Next(64), ElementsAre(IsPiece(Bytes(64, 64), 0)));
  EXPECT_FALSE(cursor.is_done());
  EXPECT_THAT(cursor.Next(64), ElementsAre(IsPiece(Bytes(128, 22), 0)));
  EXPECT_TRUE(cursor.is_done());
}

TEST_F(CopyCursorTest, SmallCopiesShareAPartAndAreAligned) {
  CopyCursor cursor({Bytes(0, 4), Bytes(10, 64), Bytes(80, 65)});

  EXPECT_THAT(cursor.Next(192),
              ElementsAre(IsPiece(Bytes(0, 4), 0), IsPiece(Bytes(10, 64), 64),
                          IsPiece(Bytes(80, 64), 128)));
  EXPECT_THAT(cursor.Next(192), ElementsAre(IsPiece(Bytes(144, 1), 0)));
  EXPECT_TRUE(cursor.is_done());
}

TEST_F(CopyCursorTest, EmptyCopiesAreLeftOut) {
  EXPECT_TRUE(CopyCursor({}).is_done());
  EXPECT_TRUE(CopyCursor({MemoryCopy(), Bytes(3, 0)}).is_done());

  CopyCursor cursor({MemoryCopy(), Bytes(3, 2), MemoryCopy()});

  EXPECT_THAT(cursor.Next(64), ElementsAre(IsPiece(Bytes(3, 2), 0)));
  EXPECT_TRUE(cursor.is_done());
}

}  // namespace
}  // namespace tensorkv
