// The swarm by itself: tools/swarm says how it is used.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/swarm/swarm.h"

namespace tensorkv::swarm {
namespace {

// Takes chosen steps of one seed.
int TakeSteps(uint64_t seed, absl::string_view steps) {
  const Plan plan = MakePlan(seed);
  std::vector<size_t> places;
  for (size_t i = 0; steps.empty() && i < plan.actions.size(); ++i) {
    places.push_back(i);
  }
  for (const absl::string_view step :
       absl::StrSplit(steps, ',', absl::SkipEmpty())) {
    size_t place = 0;
    if (absl::SimpleAtoi(step, &place)) places.push_back(place);
  }
  const auto finding = RunApart(Keep(plan, places));
  const std::string text =
      Describe(plan, places, finding ? *finding : "nothing is wrong");
  std::printf("%s\n", text.c_str());
  return finding ? 1 : 0;
}

int Main(int argc, char** argv) {
  Hunt hunt = {.stops = false};
  hunt.time = absl::Minutes(1);
  absl::string_view steps;
  bool is_one_seed = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    double minutes = 0;
    if (absl::ConsumePrefix(&flag, "--minutes=") &&
        absl::SimpleAtod(flag, &minutes)) {
      hunt.time = absl::Minutes(minutes);
    } else if (absl::ConsumePrefix(&flag, "--seed=") &&
               absl::SimpleAtoi(flag, &hunt.first_seed)) {
    } else if (absl::ConsumePrefix(&flag, "--seeds=") &&
               absl::SimpleAtoi(flag, &hunt.num_seeds)) {
      hunt.time = absl::InfiniteDuration();
    } else if (absl::ConsumePrefix(&flag, "--steps=")) {
      steps = flag;
      is_one_seed = true;
    } else {
      std::fprintf(stderr, "swarm: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (is_one_seed) return TakeSteps(hunt.first_seed, steps);
  const Catch caught = Run(hunt);
  for (const std::string& finding : caught.findings) {
    std::printf("%s\n", finding.c_str());
  }
  std::printf(
      "swarm: seeds %llu to %llu, %llu calls, %.0f calls a second, "
      "%llu seeds with known findings, %zu with others\n",
      static_cast<unsigned long long>(hunt.first_seed),
      static_cast<unsigned long long>(hunt.first_seed + caught.num_seeds - 1),
      static_cast<unsigned long long>(caught.num_calls),
      caught.num_calls / absl::ToDoubleSeconds(caught.time),
      static_cast<unsigned long long>(caught.num_known),
      caught.findings.size());
  return caught.findings.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tensorkv::swarm

int main(int argc, char** argv) { return tensorkv::swarm::Main(argc, argv); }
