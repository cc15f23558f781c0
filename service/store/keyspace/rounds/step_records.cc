#include "service/store/keyspace/rounds/step_records.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "service/store/keyspace/workers/worker_group.h"

namespace tensorkv {
namespace {

// Bounds what a node of a tree takes besides what is in it.
constexpr uint64_t kNodeBytes = 64;

uint64_t BytesOf(const RoundContributions& round) {
  return sizeof(Recorded<RoundContributions>) +
         round.taken.size() * sizeof(TakenContribution) +
         round.missing.size() * sizeof(uint32_t);
}

uint64_t BytesOf(const WorkerNames& names) {
  uint64_t bytes =
      sizeof(Recorded<WorkerNames>) + names.size() * sizeof(names[0]);
  for (const auto& [rank, name] : names) bytes += name.size();
  return bytes;
}

uint64_t BytesOf(const RoundFailure& failure) {
  return sizeof(failure) + failure.text.size() +
         (failure.ranks.size() + failure.came.size()) * sizeof(uint32_t);
}

bool IsSame(const RoundFailure& a, const RoundFailure& b) {
  return a.text == b.text && a.ranks == b.ranks;
}

// Returns whether the present names are these.
bool AreNames(const WorkerGroup& workers, const WorkerNames& names) {
  auto next = names.begin();
  for (uint32_t rank = 0; rank < workers.num_ranks(); ++rank) {
    const absl::string_view name = workers.name_of(rank);
    if (name.empty()) continue;
    if (next == names.end() || next->first != rank || next->second != name) {
      return false;
    }
    ++next;
  }
  return next == names.end();
}

WorkerNames NamesOf(const WorkerGroup& workers) {
  WorkerNames names;
  for (uint32_t rank = 0; rank < workers.num_ranks(); ++rank) {
    const absl::string_view name = workers.name_of(rank);
    if (!name.empty()) names.emplace_back(rank, name);
  }
  return names;
}

}  // namespace

void StepRecords::Begin(RefPtr<BudgetAccount> account,
                        const WorkerGroup* workers, bool has_weights) {
  workers_ = workers;
  has_weights_ = has_weights;
  memory_.emplace(std::move(account), kMaxBytes);
}

RoundContributions& StepRecords::StartRound() {
  started_.taken.clear();
  started_.missing.clear();
  return started_;
}

StepRecords::ListNumber StepRecords::RoundClosed(Step step,
                                                 absl::string_view key) {
  CountedRecord* const counted = At(step);
  if (counted == nullptr) return kUnrecorded;
  StepRecord& record = counted->record();
  const std::optional<ListNumber> list = ListIn(*counted);
  const bool is_named =
      list && (*list == 0 || *list == kInNoList ||
               NameKey(*counted, key, record.lists[*list].keys));
  if (!is_named) {
    Forget(records_.find(step));
    return kUnrecorded;
  }
  record.last_end = absl::Now();
  ++record.rounds_closed;
  ++(*list == kInNoList ? record.rounds_unlisted
                        : record.lists[*list].num_keys);
  return *list;
}

void StepRecords::RoundUndone(Step step, absl::string_view key,
                              ListNumber list) {
  if (list == kUnrecorded || has_ended_ || !records_.contains(step)) return;
  StepRecord& record = At(step)->record();
  --record.rounds_closed;
  if (list == kInNoList) {
    --record.rounds_unlisted;
    return;
  }
  --record.lists[list].num_keys;
  std::erase(record.lists[list].keys, key);
}

void StepRecords::RoundFailed(Step step, absl::string_view key,
                              const RoundFailurePtr& failure,
                              absl::FunctionRef<std::vector<uint32_t>()> came) {
  CountedRecord* const counted = At(step);
  if (counted == nullptr) return;
  if (!AddFailure(*counted, key, failure, came)) {
    return Forget(records_.find(step));
  }
  counted->record().last_end = absl::Now();
  ++counted->record().rounds_failed;
}

void StepRecords::LateContribution(Step step, uint32_t rank, LateFate fate) {
  WorkerOfStep* const worker = WorkerAt(step, rank);
  if (worker == nullptr) return;
  switch (fate) {
    case LateFate::kCarried:
      ++worker->late_carried;
      break;
    case LateFate::kTaken:
      ++worker->late_taken;
      break;
    case LateFate::kTakenInVain:
      // The key may have brought it from another server, or a checkpoint.
      if (worker->late_taken == 0) break;
      --worker->late_taken;
      ++worker->late_dropped;
      break;
    case LateFate::kDropped:
      ++worker->late_dropped;
      break;
  }
}

void StepRecords::PushRefused(Step step, uint32_t rank, Reason reason) {
  const bool is_late = reason == Reason::kStepClosed;
  if (!is_late && reason != Reason::kContributionExists) return;
  WorkerOfStep* const worker = WorkerAt(step, rank);
  if (worker == nullptr) return;
  ++(is_late ? worker->late_refused : worker->duplicates_refused);
}

void StepRecords::PushGuarded(Step step, uint32_t rank,
                              const GuardEffects& effects) {
  WorkerOfStep* const worker = WorkerAt(step, rank);
  if (worker == nullptr) return;
  worker->guard_refused += effects.is_refused ? 1 : 0;
  worker->guard_clipped += effects.num_clipped;
  worker->guard_skipped += effects.num_skipped;
  worker->greatest_norm =
      std::max(worker->greatest_norm, effects.greatest_norm);
}

StepRecordPtr StepRecords::Newest(Step first, Step last) const {
  auto next = records_.upper_bound(last);
  if (next == records_.begin() || (--next)->first < first) return nullptr;
  return StepRecordPtr(next->second.shared.get());
}

StepRecords::CountedRecord* StepRecords::At(Step step) {
  if (std::exchange(has_ended_, false) && !IsAboveAll(step)) {
    records_.clear();
    last_forgotten_ = 0;
  }
  const auto found = records_.find(step);
  if (found != records_.end()) {
    RefPtr<SharedStepRecord>& shared = found->second.shared;
    // Who reads it goes on with what there was.
    if (!shared->IsUnique()) {
      shared = MakeRefCounted<SharedStepRecord>(shared->record);
    }
    return &found->second;
  }
  if (!memory_ || step <= last_forgotten_) return nullptr;
  if (records_.size() == kMaxSteps) {
    const auto oldest = records_.begin();
    if (step < oldest->first) return nullptr;
    Forget(oldest);
  }
  const auto added = records_.try_emplace(step).first;
  CountedRecord& counted = added->second;
  counted.shared = MakeRefCounted<SharedStepRecord>(StepRecord{.step = step});
  const uint64_t bytes =
      sizeof(counted) + sizeof(SharedStepRecord) + kNodeBytes;
  if (ReserveIn(counted, bytes) && NameWorkers(counted)) return &counted;
  Forget(added);
  return nullptr;
}

bool StepRecords::IsAboveAll(Step step) const {
  return step > last_forgotten_ &&
         (records_.empty() || step > records_.rbegin()->first);
}

WorkerOfStep* StepRecords::WorkerAt(Step step, uint32_t rank) {
  CountedRecord* const counted = At(step);
  if (counted == nullptr) return nullptr;
  const auto [worker, is_new] = counted->record().workers.try_emplace(rank);
  // Nodes of the tree may be half empty.
  if (!is_new || ReserveIn(*counted, 2 * sizeof(*worker)))
    return &worker->second;
  Forget(records_.find(step));
  return nullptr;
}

std::optional<StepRecords::ListNumber> StepRecords::ListIn(
    CountedRecord& counted) {
  std::vector<StepRecord::List>& lists = counted.record().lists;
  const auto found = std::find_if(
      lists.begin(), lists.end(),
      [&](const auto& list) { return list.contributions->value == started_; });
  if (found != lists.end()) {
    return static_cast<ListNumber>(found - lists.begin());
  }
  if (lists.size() == kMaxLists) return kInNoList;
  // Workers may have joined since the record began.
  if (!NameWorkers(counted) || !ReserveIn(counted, sizeof(StepRecord::List))) {
    return std::nullopt;
  }
  ContributionsPtr list = NewList(counted);
  if (!list) return std::nullopt;
  lists.push_back({.contributions = std::move(list)});
  return static_cast<ListNumber>(lists.size() - 1);
}

ContributionsPtr StepRecords::NewList(CountedRecord& counted) {
  const bool is_first = counted.record().lists.empty();
  if (is_first && last_list_ && last_list_->value == started_) {
    return last_list_;
  }
  std::optional<CountedBytes> bytes =
      Reserve(counted.record().step, BytesOf(started_));
  if (!bytes) return nullptr;
  ContributionsPtr list = MakeRefCounted<const Recorded<RoundContributions>>(
      started_, *std::move(bytes));
  if (is_first) last_list_ = list;
  return list;
}

bool StepRecords::AddFailure(CountedRecord& counted, absl::string_view key,
                             const RoundFailurePtr& failure,
                             absl::FunctionRef<std::vector<uint32_t>()> came) {
  std::vector<StepRecord::Failure>& failures = counted.record().failures;
  auto found =
      std::find_if(failures.begin(), failures.end(), [&](const auto& each) {
        return each.failure == failure || IsSame(*each.failure, *failure);
      });
  if (found == failures.end()) {
    if (failures.size() == kMaxFailures) {
      ++counted.record().failures_unlisted;
      return true;
    }
    StepRecord::Failure added = {.failure = failure, .came = came()};
    const uint64_t bytes = sizeof(added) + BytesOf(*failure) +
                           added.came.size() * sizeof(uint32_t);
    if (!NameWorkers(counted) || !ReserveIn(counted, bytes)) return false;
    failures.push_back(std::move(added));
    found = std::prev(failures.end());
  }
  ++found->num_rounds;
  return NameKey(counted, key, found->keys);
}

bool StepRecords::NameWorkers(CountedRecord& counted) {
  if (!names_ || !AreNames(*workers_, names_->value)) {
    WorkerNames names = NamesOf(*workers_);
    std::optional<CountedBytes> bytes =
        Reserve(counted.record().step, BytesOf(names));
    if (!bytes) return false;
    names_ = MakeRefCounted<const Recorded<WorkerNames>>(std::move(names),
                                                         *std::move(bytes));
  }
  counted.record().names = names_;
  return true;
}

bool StepRecords::NameKey(CountedRecord& counted, absl::string_view key,
                          std::vector<std::string>& keys) {
  const auto next = std::lower_bound(keys.begin(), keys.end(), key);
  if (keys.size() == kMaxKeys || (next != keys.end() && *next == key)) {
    return true;
  }
  if (!ReserveIn(counted, sizeof(std::string) + key.size())) return false;
  keys.insert(next, std::string(key));
  return true;
}

std::optional<CountedBytes> StepRecords::Reserve(Step step, uint64_t bytes) {
  for (;;) {
    if (auto reserved = memory_->Reserve(bytes)) return reserved;
    if (DropUnused()) continue;
    if (records_.begin()->first >= step) return std::nullopt;
    Forget(records_.begin());
  }
}

bool StepRecords::DropUnused() {
  const bool has_list = last_list_ && last_list_->IsUnique();
  const bool has_names = names_ && names_->IsUnique();
  if (has_list) last_list_ = nullptr;
  if (has_names) names_ = nullptr;
  return has_list || has_names;
}

bool StepRecords::ReserveIn(CountedRecord& counted, uint64_t bytes) {
  auto reserved = Reserve(counted.record().step, bytes);
  if (!reserved) return false;
  counted.bytes.Merge(*std::move(reserved));
  return true;
}

void StepRecords::Forget(Records::iterator record) {
  last_forgotten_ = std::max(last_forgotten_, record->first);
  records_.erase(record);
}

}  // namespace tensorkv
