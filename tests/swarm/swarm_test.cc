#include "tests/swarm/swarm.h"

#include "gtest/gtest.h"
#include "tests/testing/sanitizers.h"

namespace tensorkv::swarm {
namespace {

// ThreadSanitizer watches threads that run at the same time.
#ifdef _GLIBCXX_TSAN

TEST(SwarmTest, FindsNothingOnThreads) {
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    const Plan plan = MakePlan(seed, /*may_be_cluster=*/false);
    const Outcome outcome = RunOnThreads(plan, /*num_threads=*/4);
    if (!outcome.finding) continue;
    EXPECT_NE(KnownReason(plan, *outcome.finding), "")
        << "seed " << seed << ": " << *outcome.finding;
  }
}

#else

TEST(SwarmTest, FindsNothingThatIsNotKnown) {
  // Those that are let run without a sanitizer find more.
  const Catch caught =
      swarm::Run({.num_seeds = testing::kIsSanitized ? 150 : 1200});

  for (const std::string& finding : caught.findings) ADD_FAILURE() << finding;
}

// A seed is a reproduction, also of what is known.
TEST(SwarmTest, FindsTheSameEachTime) {
  for (int seed = 1; seed <= (testing::kIsSanitized ? 4 : 50); ++seed) {
    const Plan plan = MakePlan(seed);
    EXPECT_EQ(RunApart(plan), RunApart(plan)) << seed;
  }
}

#endif

}  // namespace
}  // namespace tensorkv::swarm
