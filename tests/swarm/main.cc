// The swarm by itself: tools/swarm says how it is used.

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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
    if (!absl::SimpleAtoi(step, &place) || place >= plan.actions.size()) {
      std::fprintf(stderr, "swarm: expected a step below %zu, got \"%s\"\n",
                   plan.actions.size(), std::string(step).c_str());
      return 2;
    }
    places.push_back(place);
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

struct Arguments {
  Hunt hunt = {.time = absl::Minutes(1), .stops = false};
  std::optional<absl::string_view> steps;
  int num_threads = 0;
};

// Returns false if it is none.
bool TakeArgument(absl::string_view argument, Arguments& arguments) {
  const auto number = [argument](absl::string_view flag, auto& value) {
    absl::string_view text = argument;
    return absl::ConsumePrefix(&text, flag) && absl::SimpleAtoi(text, &value);
  };
  Hunt& hunt = arguments.hunt;
  if (number("--seed=", hunt.first_seed)) return true;
  if (number("--threads=", arguments.num_threads)) return true;
  if (number("--seeds=", hunt.num_seeds)) {
    hunt.time = absl::InfiniteDuration();
    return true;
  }
  double minutes = 0;
  if (absl::ConsumePrefix(&argument, "--minutes=")) {
    if (!absl::SimpleAtod(argument, &minutes)) return false;
    hunt.time = absl::Minutes(minutes);
    return true;
  }
  if (!absl::ConsumePrefix(&argument, "--steps=")) return false;
  arguments.steps = argument;
  return true;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    if (TakeArgument(argv[i], arguments)) continue;
    std::fprintf(stderr, "swarm: unknown argument %s\n", argv[i]);
    return 2;
  }
  const Hunt& hunt = arguments.hunt;
  if (arguments.num_threads > 0) return RunThreads(hunt, arguments.num_threads);
  if (arguments.steps) return TakeSteps(hunt.first_seed, *arguments.steps);
  const Catch caught = Run(hunt);
  for (const std::string& finding : caught.findings) {
    std::printf("%s\n", finding.c_str());
  }
  const std::string summary = absl::StrCat(
      "swarm: seeds ", hunt.first_seed, " to ",
      hunt.first_seed + caught.num_seeds - 1, ", ", caught.num_calls,
      " calls (clusters: ", caught.num_clusters, " seeds, ",
      caught.num_cluster_calls, " calls), ",
      static_cast<uint64_t>(caught.num_calls /
                            absl::ToDoubleSeconds(caught.time)),
      " calls a second, ", caught.num_known, " seeds with known findings, ",
      caught.findings.size(), " with others");
  std::printf("%s\n", summary.c_str());
  return caught.findings.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tensorkv::swarm

int main(int argc, char** argv) { return tensorkv::swarm::Main(argc, argv); }
