// Runs seeds of the swarm, and makes what they find small.

#ifndef TENSORKV_TESTS_SWARM_SWARM_H_
#define TENSORKV_TESTS_SWARM_SWARM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/swarm/plan.h"

namespace tensorkv::swarm {

struct Outcome {
  // The first thing that is wrong; nothing if all is well. What comes before a
  // colon is its kind.
  std::optional<std::string> finding;
  uint64_t num_calls = 0;
};

// Takes the plan's steps one by one, on a store of its own. After a finding
// threads stand where they were: then the process is to end.
Outcome RunStepped(const Plan& plan);

// The same on `num_threads` threads at once, without a scheduler.
Outcome RunOnThreads(const Plan& plan, int num_threads);

// RunStepped in a process of its own, whose crash is a finding.
std::optional<std::string> RunApart(const Plan& plan);

// The fewest actions of the plan that find the same kind of thing, by their
// places. Each of them is needed.
std::vector<size_t> Shrink(const Plan& plan, absl::string_view finding);

// The plan with these actions alone.
Plan Keep(const Plan& plan, const std::vector<size_t>& places);

// What is told of a finding: what is wrong, the steps that lead to it, and the
// command that takes them again.
std::string Describe(const Plan& plan, const std::vector<size_t>& places,
                     absl::string_view finding);

// Why a finding is known and not mended yet; empty if it is not known.
absl::string_view KnownReason(const Plan& plan, absl::string_view finding);

struct Hunt {
  uint64_t first_seed = 1;
  // As many seeds, or as many as the time allows.
  uint64_t num_seeds = UINT64_MAX;
  absl::Duration time = absl::InfiniteDuration();
  // Stops at the first finding that is not known.
  bool stops = true;
};

struct Catch {
  uint64_t num_seeds = 0;
  uint64_t num_calls = 0;
  // Of these, seeds that were clusters without a finding, and their calls.
  uint64_t num_clusters = 0;
  uint64_t num_cluster_calls = 0;
  uint64_t num_known = 0;
  absl::Duration time;
  // As Describe tells them.
  std::vector<std::string> findings;
};

Catch Run(const Hunt& hunt);

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_SWARM_H_
