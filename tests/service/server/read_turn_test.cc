#include "service/server/read_turn.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(ReadTurnTest, IsOverWhenItsWorkIsDone) {
  ReadTurn turn;

  EXPECT_FALSE(turn.Count(100, ReadTurn::kWork / 2));
  EXPECT_TRUE(turn.Count(100, ReadTurn::kWork / 2));
  EXPECT_FALSE(turn.Count(100, ReadTurn::kWork - 1));
  EXPECT_TRUE(turn.Count(100, 1));
}

TEST(ReadTurnTest, ReadsLittleOfWhatIsMuchWork) {
  ReadTurn turn;

  turn.Count(64'000, 4 * ReadTurn::kWork);
  EXPECT_EQ(turn.max_bytes(), 16'000u);
  turn.Count(16'000, 400 * ReadTurn::kWork);
  EXPECT_EQ(turn.max_bytes(), ReadTurn::kMinBytes);
}

TEST(ReadTurnTest, ReadsMoreAndMoreOfWhatIsLittleWork) {
  ReadTurn turn;

  for (size_t bytes = ReadTurn::kFirstBytes; bytes < ReadTurn::kMaxBytes;
       bytes *= 2) {
    EXPECT_EQ(turn.max_bytes(), bytes);
    turn.Count(bytes, 1);
  }
  turn.Count(ReadTurn::kMaxBytes, 1);

  EXPECT_EQ(turn.max_bytes(), ReadTurn::kMaxBytes);
}

TEST(ReadTurnTest, SmallReadsDoNotMakeLargeOnes) {
  ReadTurn turn;

  for (int i = 0; i < 100; ++i) turn.Count(100, 1);

  EXPECT_EQ(turn.max_bytes(), ReadTurn::kFirstBytes);
}

}  // namespace
}  // namespace tensorkv
