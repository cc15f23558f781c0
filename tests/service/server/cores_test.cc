#include "service/server/cores.h"

#include <sched.h>

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

TEST(CoresTest, AThreadHasThoseThatItIsBoundTo) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_EQ(NumCores(), CPU_COUNT(&allowed));

  std::thread([] {
    BindToOneCore();
    EXPECT_EQ(NumCores(), 1);
    // What a bound thread starts is bound as well.
    std::thread([] { EXPECT_EQ(NumCores(), 1); }).join();
  }).join();

  EXPECT_EQ(NumCores(), CPU_COUNT(&allowed));
}

}  // namespace
}  // namespace tensorkv
