// The swarm by itself: tools/swarm says how it is used.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
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

// Takes the steps of seeds on threads, for a sanitizer to watch.
int RunThreads(const Hunt& hunt, int num_threads) {
  const absl::Time end = absl::Now() + hunt.time;
  uint64_t seed = hunt.first_seed;
  uint64_t num_calls = 0;
  for (; seed - hunt.first_seed < hunt.num_seeds && absl::Now() < end; ++seed) {
    const Plan plan = MakePlan(seed, /*may_be_cluster=*/false);
    const Outcome outcome = RunOnThreads(plan, num_threads);
    num_calls += outcome.num_calls;
    if (!outcome.finding || !KnownReason(plan, *outcome.finding).empty()) {
      continue;
    }
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
                outcome.finding->c_str());
    return 1;
  }
  std::printf("swarm: %llu seeds on %d threads, %llu calls\n",
              static_cast<unsigned long long>(seed - hunt.first_seed),
              num_threads, static_cast<unsigned long long>(num_calls));
  return 0;
}

int Main(int argc, char** argv) {
  Hunt hunt = {.stops = false};
  hunt.time = absl::Minutes(1);
  absl::string_view steps;
  int num_threads = 0;
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
    } else if (absl::ConsumePrefix(&flag, "--threads=") &&
               absl::SimpleAtoi(flag, &num_threads)) {
    } else if (absl::ConsumePrefix(&flag, "--steps=")) {
      steps = flag;
      is_one_seed = true;
    } else {
      std::fprintf(stderr, "swarm: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (num_threads > 0) return RunThreads(hunt, num_threads);
  if (is_one_seed) return TakeSteps(hunt.first_seed, steps);
  const Catch caught = Run(hunt);
  for (const std::string& finding : caught.findings) {
    std::printf("%s\n", finding.c_str());
  }
  std::printf(
      "swarm: seeds %llu to %llu, %llu calls (clusters: %llu seeds, %llu "
      "calls), %.0f calls a second, "
      "%llu seeds with known findings, %zu with others\n",
      static_cast<unsigned long long>(hunt.first_seed),
      static_cast<unsigned long long>(hunt.first_seed + caught.num_seeds - 1),
      static_cast<unsigned long long>(caught.num_calls),
      static_cast<unsigned long long>(caught.num_clusters),
      static_cast<unsigned long long>(caught.num_cluster_calls),
      caught.num_calls / absl::ToDoubleSeconds(caught.time),
      static_cast<unsigned long long>(caught.num_known),
      caught.findings.size());
  return caught.findings.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tensorkv::swarm

int main(int argc, char** argv) { return tensorkv::swarm::Main(argc, argv); }
