#include "base/answer.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

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
