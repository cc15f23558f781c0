#include "base/cores.h"

#include <sched.h>

#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// Restricts the thread that calls it to the first core that it may run on.
void BindToOneCore() {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

int NumCoresWith(const std::string& quota) {
  std::istringstream file(quota);
  return NumCores(file);
}

TEST(CoresTest, AThreadHasThoseThatItIsBoundTo) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_EQ(NumCoresWith("max 100000\n"), CPU_COUNT(&allowed));

  std::thread([] {
    BindToOneCore();
    EXPECT_EQ(NumCores(), 1);
    // What a bound thread starts is bound as well.
    std::thread([] { EXPECT_EQ(NumCores(), 1); }).join();
  }).join();

  EXPECT_EQ(NumCoresWith("max 100000\n"), CPU_COUNT(&allowed));
}

TEST(CoresTest, QuotaTakesCoresAwayAndAddsNone) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);

  EXPECT_EQ(NumCoresWith("50000 100000\n"), 1);
  EXPECT_EQ(NumCoresWith("9000000000000 1\n"), CPU_COUNT(&allowed));
}

std::optional<int> CoresOf(const std::string& quota) {
  std::istringstream file(quota);
  return ParseCpuMax(file);
}

TEST(CoresTest, QuotaIsRoundedUp) {
  EXPECT_EQ(CoresOf("200000 100000\n"), 2);
  EXPECT_EQ(CoresOf("150000 100000\n"), 2);
  EXPECT_EQ(CoresOf("50000 100000\n"), 1);
  EXPECT_EQ(CoresOf("9000000000000000000 1\n"), 2147483647);
}

TEST(CoresTest, WhatIsNoQuotaLimitsNothing) {
  EXPECT_EQ(CoresOf("max 100000\n"), std::nullopt);
  EXPECT_EQ(CoresOf("100000 0\n"), std::nullopt);
  EXPECT_EQ(CoresOf(""), std::nullopt);
}

}  // namespace
}  // namespace tensorkv
