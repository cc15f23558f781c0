#include "tests/swarm/swarm.h"

#include "gtest/gtest.h"

namespace tensorkv::swarm {
namespace {

TEST(SwarmTest, FindsNothingThatIsNotKnown) {
  const Catch caught = swarm::Run({.num_seeds = 2000});

  for (const std::string& finding : caught.findings) ADD_FAILURE() << finding;
  RecordProperty("calls", static_cast<int>(caught.num_calls));
}

}  // namespace
}  // namespace tensorkv::swarm
