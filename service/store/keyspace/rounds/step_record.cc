#include "service/store/keyspace/rounds/step_record.h"

#include <map>
#include <set>

#include "contract/timestamp.h"

namespace tensorkv {
namespace {

v1::StepContributors ToProto(const StepRecord::List& list, bool has_weights) {
  v1::StepContributors proto;
  const RoundContributions& round = list.contributions->value;
  for (const TakenContribution& taken : round.taken) {
    v1::StepContribution& added = *proto.add_contributions();
    added.set_rank(taken.rank);
    added.set_carried_from(taken.carried_from);
    added.set_skipped(taken.has_skipped);
    if (has_weights && !taken.has_skipped) added.set_weight(taken.weight);
  }
  proto.mutable_missing()->Assign(round.missing.begin(), round.missing.end());
  proto.set_num_keys(list.num_keys);
  proto.mutable_keys()->Assign(list.keys.begin(), list.keys.end());
  return proto;
}

v1::StepFailure ToProto(const StepRecord::Failure& failure) {
  v1::StepFailure proto;
  proto.set_reason(failure.failure->text);
  const std::vector<uint32_t>& ranks = failure.failure->ranks;
  proto.mutable_ranks()->Assign(ranks.begin(), ranks.end());
  proto.mutable_came()->Assign(failure.came.begin(), failure.came.end());
  proto.set_num_rounds(failure.num_rounds);
  proto.mutable_keys()->Assign(failure.keys.begin(), failure.keys.end());
  return proto;
}

void SetCounts(const WorkerOfStep& counts, v1::StepWorker& proto) {
  proto.set_late_refused(counts.late_refused);
  proto.set_late_carried(counts.late_carried);
  proto.set_late_taken(counts.late_taken);
  proto.set_late_dropped(counts.late_dropped);
  proto.set_duplicates_refused(counts.duplicates_refused);
  proto.set_guard_clipped(counts.guard_clipped);
  proto.set_guard_skipped(counts.guard_skipped);
  proto.set_guard_refused(counts.guard_refused);
  proto.set_greatest_norm(counts.greatest_norm);
}

// Returns the ranks that the record names.
std::set<uint32_t> RanksIn(const StepRecord& record) {
  std::set<uint32_t> ranks;
  for (const StepRecord::List& list : record.lists) {
    const RoundContributions& round = list.contributions->value;
    for (const TakenContribution& taken : round.taken) ranks.insert(taken.rank);
    ranks.insert(round.missing.begin(), round.missing.end());
  }
  for (const StepRecord::Failure& each : record.failures) {
    ranks.insert(each.failure->ranks.begin(), each.failure->ranks.end());
    ranks.insert(each.came.begin(), each.came.end());
  }
  return ranks;
}

// Returns the workers by their ranks: those with names of those that the record
// names, and those with counts.
std::map<uint32_t, v1::StepWorker> WorkersOf(const StepRecord& record) {
  std::map<uint32_t, v1::StepWorker> workers;
  std::set<uint32_t> ranks = RanksIn(record);
  for (const auto& [rank, counts] : record.workers) {
    ranks.insert(rank);
    SetCounts(counts, workers[rank]);
  }
  for (const auto& [rank, name] : record.names->value) {
    if (ranks.contains(rank)) workers[rank].set_name(name);
  }
  return workers;
}

}  // namespace

v1::StepRecord ToProto(const StepRecord& record, bool has_weights) {
  v1::StepRecord proto;
  proto.set_step(record.step);
  if (record.last_end != absl::InfinitePast()) {
    EncodeTime(record.last_end, proto.mutable_last_end_time());
  }
  proto.set_rounds_closed(record.rounds_closed);
  proto.set_rounds_failed(record.rounds_failed);
  for (const StepRecord::List& list : record.lists) {
    // Its rounds may have failed after all.
    if (list.num_keys == 0) continue;
    *proto.add_contributors() = ToProto(list, has_weights);
  }
  proto.set_rounds_unlisted(record.rounds_unlisted);
  for (const StepRecord::Failure& each : record.failures) {
    *proto.add_failures() = ToProto(each);
  }
  proto.set_failures_unlisted(record.failures_unlisted);
  for (auto& [rank, worker] : WorkersOf(record)) {
    worker.set_rank(rank);
    *proto.add_workers() = std::move(worker);
  }
  return proto;
}

}  // namespace tensorkv
