// What is told of steps, against what was pushed.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/swarm/world.h"
#include "tests/testing/namespace_requests.h"

namespace tensorkv::swarm {
namespace {

// Returns what does not add up in a record; empty: nothing.
std::string WrongSums(const v1::StepRecord& record) {
  uint64_t closed = record.rounds_unlisted();
  for (const v1::StepContributors& list : record.contributors()) {
    if (list.num_keys() == 0) return "a list is of no key";
    closed += list.num_keys();
  }
  uint64_t failed = record.failures_unlisted();
  for (const v1::StepFailure& each : record.failures()) {
    failed += each.num_rounds();
  }
  if (closed != record.rounds_closed()) return "lists are not of all rounds";
  if (failed != record.rounds_failed()) return "failures are not all";
  std::map<uint32_t, const v1::StepWorker*> workers;
  for (const v1::StepWorker& each : record.workers()) {
    if (!workers.emplace(each.rank(), &each).second) return "a worker is twice";
    if (each.late_taken() + each.late_dropped() > each.late_carried()) {
      return "more was taken or dropped than was carried";
    }
  }
  return "";
}

// Returns what is wrong in a list of the step, of a namespace of `num_ranks`.
std::string WrongList(const v1::StepContributors& list, Step step,
                      const SpacePlan& plan) {
  std::set<std::tuple<Step, uint32_t>> seen;
  uint32_t num_own = 0;
  for (const v1::StepContribution& each : list.contributions()) {
    if (each.rank() >= plan.num_ranks()) return "there is no such rank";
    if (!seen.emplace(each.carried_from(), each.rank()).second) {
      return "a contribution counts twice";
    }
    num_own += each.carried_from() == 0 ? 1 : 0;
    if (each.carried_from() >= step) return "something of a later step";
    if (each.carried_from() > 0 && !plan.carries()) return "nothing is carried";
    if (each.has_weight() != (plan.has_means() && !each.skipped())) {
      return "a weight, or none";
    }
  }
  for (const uint32_t rank : list.missing()) {
    if (seen.contains({Step{0}, rank})) return "who is missing is there";
  }
  const bool is_whole = plan.is_whole() && !plan.config.mirrored;
  if (is_whole && (num_own != plan.num_ranks() || !list.missing().empty())) {
    return "a round has closed without some";
  }
  return "";
}

// Returns whether the rank may have contributed to that step of those keys.
bool HasBrought(const Space& space, uint32_t rank, Step step,
                const v1::StepContributors& list) {
  for (const std::string& name : list.keys()) {
    if (!space.brought.contains({rank, KeyOf(name), step})) return false;
  }
  uint64_t num_brought = 0;
  for (uint32_t key = 0; key < kNumKeys; ++key) {
    num_brought += space.brought.contains({rank, key, step}) ? 1 : 0;
  }
  // A key that is created again has another round of the step.
  return num_brought > 0;
}

// Returns what is wrong in a record. If all that was pushed `is_known`, whoever
// is told to have contributed has brought it, and to that key where it is
// named.
std::string WrongRecord(const Space& space, const v1::StepRecord& record,
                        bool is_known) {
  std::string fault = WrongSums(record);
  for (const v1::StepContributors& list : record.contributors()) {
    if (fault.empty()) fault = WrongList(list, record.step(), space.plan);
    for (const v1::StepContribution& each : list.contributions()) {
      const Step step =
          each.carried_from() == 0 ? record.step() : each.carried_from();
      if (!fault.empty() || !is_known) break;
      if (HasBrought(space, each.rank(), step, list)) continue;
      fault = absl::StrCat("rank ", each.rank(), " has not brought that");
    }
  }
  return fault;
}

}  // namespace

void World::CheckSteps() {
  for (const auto& server : servers_) {
    if (server->is_dead) continue;
    for (uint32_t at = 0; at < plan_.spaces.size(); ++at) {
      CheckSteps(*server, at);
    }
  }
}

void World::CheckSteps(Server& server, uint32_t at) {
  const SpacePlan& plan = plan_.spaces[at];
  if (plan.config.mode != Mode::kSync) return;
  DescribeStepsRequest request;
  request.set_namespace_(plan.name);
  request.set_page_size(3);
  Step last = UINT64_MAX;
  do {
    const auto page = testing::MakeNow(server.store(), request);
    MutexLock lock(&mutex_);
    if (!page.ok()) {
      if (!absl::IsNotFound(page.status())) Find(page.status().ToString());
      return;
    }
    for (const v1::StepRecord& record : page->steps()) {
      if (record.step() >= last) Find("records of steps are not in order");
      last = record.step();
      const bool is_known = !spaces_[at].is_restored && num_restoring_ == 0;
      const std::string fault = WrongRecord(spaces_[at], record, is_known);
      if (fault.empty()) continue;
      Find(absl::StrCat("a record of a step is wrong: ", fault, ": ",
                        record.ShortDebugString()));
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  const auto described =
      server.store().DescribeNamespace(testing::DescribeOf(plan.name), {});
  if (!described.ok() || !HasHeadroom(plan_)) return;
  const NamespaceStatus& status = described->status();
  if (last != UINT64_MAX ||
      status.rounds_closed() + status.rounds_failed() == 0) {
    return;
  }
  MutexLock lock(&mutex_);
  Find(absl::StrCat("no step is recorded, though ", status.rounds_closed(),
                    " rounds have closed and ", status.rounds_failed(),
                    " have failed"));
}

}  // namespace tensorkv::swarm
