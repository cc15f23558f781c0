#include "bench/harness/machine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::Pair;

TEST(MachineTest, SaysWhatAndWhen) {
  EXPECT_THAT(DescribeMachine(),
              ElementsAre(Pair("processor", Not(IsEmpty())),
                          Pair("cores", MatchesRegex("[1-9][0-9]*")),
                          Pair("memory", MatchesRegex("[0-9.]+ GiB")),
                          Pair("kernel", MatchesRegex("Linux .+")),
                          Pair("distribution", Not(IsEmpty())),
                          Pair("gRPC", MatchesRegex("[0-9.]+.*")),
                          Pair("date", MatchesRegex("20..-..-.. ..:.. UTC"))));
}

}  // namespace
}  // namespace tensorkv::bench
