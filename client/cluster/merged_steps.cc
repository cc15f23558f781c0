#include "client/cluster/merged_steps.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "contract/slices.h"
#include "contract/step_token.h"
#include "contract/timestamp.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {
namespace {

using google::protobuf::RepeatedField;
using google::protobuf::RepeatedPtrField;
using Ranks = RepeatedField<uint32_t>;

// These are the bounds that a server has.
constexpr size_t kDefaultStepsOfPage = 10;
constexpr size_t kMaxStepsOfPage = 128;
constexpr int kMaxLists = 16;
constexpr size_t kMaxKeys = 16;

bool AreSame(const v1::StepContribution& a, const v1::StepContribution& b) {
  return std::tuple(a.rank(), a.carried_from(), a.skipped(), a.has_weight(),
                    a.weight()) == std::tuple(b.rank(), b.carried_from(),
                                              b.skipped(), b.has_weight(),
                                              b.weight());
}

bool AreSame(const v1::StepContributors& a, const v1::StepContributors& b) {
  return absl::c_equal(
             a.contributions(), b.contributions(),
             [](const auto& x, const auto& y) { return AreSame(x, y); }) &&
         absl::c_equal(a.missing(), b.missing());
}

bool AreSame(const v1::StepFailure& a, const v1::StepFailure& b) {
  return a.reason() == b.reason() && absl::c_equal(a.ranks(), b.ranks());
}

// Adds names of keys, those of slices by their keys.
void AddKeys(const RepeatedPtrField<std::string>& from,
             RepeatedPtrField<std::string>& to) {
  std::set<std::string> keys(to.begin(), to.end());
  for (const std::string& name : from) keys.emplace(WholeKeyOf(name));
  to.Clear();
  for (const std::string& key : keys) {
    if (static_cast<size_t>(to.size()) == kMaxKeys) break;
    *to.Add() = key;
  }
}

void AddRanks(const Ranks& from, Ranks& to) {
  std::set<uint32_t> ranks(to.begin(), to.end());
  ranks.insert(from.begin(), from.end());
  to.Assign(ranks.begin(), ranks.end());
}

// Adds counts of keys and rounds. Every server of a mirrored namespace has all.
uint64_t Total(uint64_t a, uint64_t b, bool is_mirrored) {
  return is_mirrored ? std::max(a, b) : a + b;
}

void Add(const v1::StepContributors& list, bool is_mirrored,
         v1::StepRecord& total) {
  auto& lists = *total.mutable_contributors();
  auto found = absl::c_find_if(
      lists, [&](const auto& known) { return AreSame(known, list); });
  if (found == lists.end()) {
    if (lists.size() == kMaxLists) {
      total.set_rounds_unlisted(
          Total(total.rounds_unlisted(), list.num_keys(), is_mirrored));
      return;
    }
    v1::StepContributors& added = *lists.Add();
    added = list;
    added.clear_keys();
    AddKeys(list.keys(), *added.mutable_keys());
    return;
  }
  found->set_num_keys(Total(found->num_keys(), list.num_keys(), is_mirrored));
  AddKeys(list.keys(), *found->mutable_keys());
}

// Joins the only list of other workers of a mirrored namespace to another one.
void Join(const v1::StepContributors& list, v1::StepContributors& first) {
  first.mutable_contributions()->MergeFrom(list.contributions());
  absl::c_sort(
      *first.mutable_contributions(),
      [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
  AddRanks(list.missing(), *first.mutable_missing());
  first.set_num_keys(std::max(first.num_keys(), list.num_keys()));
}

void Add(const v1::StepFailure& failure, bool is_mirrored,
         v1::StepRecord& total) {
  auto& failures = *total.mutable_failures();
  auto found = absl::c_find_if(
      failures, [&](const auto& known) { return AreSame(known, failure); });
  if (found == failures.end()) {
    if (failures.size() == kMaxLists) {
      total.set_failures_unlisted(
          Total(total.failures_unlisted(), failure.num_rounds(), is_mirrored));
      return;
    }
    v1::StepFailure& added = *failures.Add();
    added = failure;
    added.clear_keys();
    AddKeys(failure.keys(), *added.mutable_keys());
    return;
  }
  found->set_num_rounds(
      Total(found->num_rounds(), failure.num_rounds(), is_mirrored));
  AddRanks(failure.came(), *found->mutable_came());
  AddKeys(failure.keys(), *found->mutable_keys());
}

void Add(const v1::StepWorker& worker, v1::StepWorker& total) {
  total.set_rank(worker.rank());
  if (total.name().empty()) total.set_name(worker.name());
  total.set_late_refused(total.late_refused() + worker.late_refused());
  total.set_late_carried(total.late_carried() + worker.late_carried());
  total.set_late_taken(total.late_taken() + worker.late_taken());
  total.set_late_dropped(total.late_dropped() + worker.late_dropped());
  total.set_duplicates_refused(total.duplicates_refused() +
                               worker.duplicates_refused());
  total.set_guard_clipped(total.guard_clipped() + worker.guard_clipped());
  total.set_guard_skipped(total.guard_skipped() + worker.guard_skipped());
  total.set_guard_refused(total.guard_refused() + worker.guard_refused());
  total.set_greatest_norm(
      std::max(total.greatest_norm(), worker.greatest_norm()));
}

void AddWorkers(const v1::StepRecord& record, v1::StepRecord& total) {
  std::map<uint32_t, v1::StepWorker> workers;
  for (const v1::StepWorker& each : total.workers()) {
    workers[each.rank()] = each;
  }
  for (const v1::StepWorker& each : record.workers()) {
    Add(each, workers[each.rank()]);
  }
  total.clear_workers();
  for (auto& [rank, worker] : workers) {
    *total.add_workers() = std::move(worker);
  }
}

void AddCounts(const v1::StepRecord& record, bool is_mirrored,
               v1::StepRecord& total) {
  const auto add = [is_mirrored](uint64_t a, uint64_t b) {
    return Total(a, b, is_mirrored);
  };
  total.set_rounds_closed(add(total.rounds_closed(), record.rounds_closed()));
  total.set_rounds_failed(add(total.rounds_failed(), record.rounds_failed()));
  total.set_rounds_unlisted(
      add(total.rounds_unlisted(), record.rounds_unlisted()));
  total.set_failures_unlisted(
      add(total.failures_unlisted(), record.failures_unlisted()));
  if (record.has_last_end_time() &&
      (!total.has_last_end_time() || DecodeTime(total.last_end_time()) <
                                         DecodeTime(record.last_end_time()))) {
    *total.mutable_last_end_time() = record.last_end_time();
  }
}

using Records = std::vector<const v1::StepRecord*>;

// Adds the lists of all records of a step.
void AddLists(const Records& records, bool is_mirrored, v1::StepRecord& total) {
  const bool joins =
      is_mirrored && absl::c_all_of(records, [](const v1::StepRecord* record) {
        return record->contributors_size() <= 1 &&
               record->rounds_unlisted() == 0;
      });
  for (const v1::StepRecord* record : records) {
    for (const v1::StepContributors& list : record->contributors()) {
      if (joins && total.contributors_size() == 1) {
        Join(list, *total.mutable_contributors(0));
      } else {
        Add(list, is_mirrored, total);
      }
    }
  }
}

// Returns one record of those that servers have of a step.
v1::StepRecord Merged(const Records& records, bool is_mirrored) {
  v1::StepRecord total;
  total.set_step(records.front()->step());
  for (const v1::StepRecord* record : records) {
    AddCounts(*record, is_mirrored, total);
  }
  AddLists(records, is_mirrored, total);
  for (const v1::StepRecord* record : records) {
    for (const v1::StepFailure& failure : record->failures()) {
      Add(failure, is_mirrored, total);
    }
    AddWorkers(*record, total);
  }
  return total;
}

// Returns the step below which some server has more; 0: none has.
Step EndOf(const std::vector<DescribeStepsReply>& pages) {
  Step end = 0;
  for (const DescribeStepsReply& page : pages) {
    const auto above = StepAbovePage(page.next_page_token());
    if (above.ok()) end = std::max(end, *above);
  }
  return end;
}

}  // namespace

DescribeStepsReply MergeSteps(std::vector<DescribeStepsReply> pages,
                              uint32_t page_size, bool is_mirrored) {
  const size_t max_steps = page_size == 0
                               ? kDefaultStepsOfPage
                               : std::min<size_t>(page_size, kMaxStepsOfPage);
  Step end = EndOf(pages);
  std::map<Step, Records, std::greater<>> by_step;
  DescribeStepsReply merged;
  for (const DescribeStepsReply& page : pages) {
    merged.set_last_forgotten(
        std::max(merged.last_forgotten(), page.last_forgotten()));
    for (const v1::StepRecord& record : page.steps()) {
      if (record.step() < end) break;
      by_step[record.step()].push_back(&record);
    }
  }
  for (const auto& [step, records] : by_step) {
    if (static_cast<size_t>(merged.steps_size()) == max_steps) {
      end = merged.steps(merged.steps_size() - 1).step();
      break;
    }
    *merged.add_steps() = Merged(records, is_mirrored);
  }
  if (end > 0) merged.set_next_page_token(TokenBelowStep(end));
  return merged;
}

}  // namespace tensorkv
