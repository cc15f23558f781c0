#include "base/answer.h"

#include <memory>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(AnswerTest, ArrivesFromAnotherThread) {
  const Answer<std::unique_ptr<int>> answer;
  EXPECT_FALSE(answer.HasArrived());

  std::thread other([answer] { answer.Set(std::make_unique<int>(7)); });

  EXPECT_EQ(*answer.Wait(), 7);
  EXPECT_TRUE(answer.HasArrived());
  other.join();
}

// Whoever waits may be gone before Set returns.
TEST(AnswerTest, OutlivesWhoWaits) {
  for (int i = 0; i < 100; ++i) {
    std::thread other;
    {
      const Answer<int> answer;
      other = std::thread([answer, i] { answer.Set(i); });
      EXPECT_EQ(answer.Wait(), i);
    }
    other.join();
  }
}

}  // namespace
}  // namespace tensorkv
