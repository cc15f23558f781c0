#include "client/internal/worker/open_contributions.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/internal/worker/worker_errors.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

bool HasKey(const std::vector<PushEntry>& entries, absl::string_view key) {
  return std::any_of(
      entries.begin(), entries.end(),
      [key](const PushEntry& entry) { return entry.key == key; });
}

absl::Status WentBack(Step step, Step next) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "push of ", step == 0 ? "no step" : absl::StrCat("step ", step),
          ": the server was restarted from a checkpoint, of which step ", next,
          " is the next: expected that one, once the worker has resumed")),
      Reason::kServerRestarted);
}

}  // namespace

uint64_t OpenContributions::life() const {
  MutexLock lock(&mutex_);
  return life_;
}

absl::StatusOr<OpenContributions::Contribution> OpenContributions::Add(
    uint64_t life, Step step, std::vector<PushEntry> entries) {
  auto shared =
      std::make_shared<const std::vector<PushEntry>>(std::move(entries));
  MutexLock lock(&mutex_);
  if (is_forgetting_ || life != life_) return WentBack(step, first_step_);
  const uint64_t number = ++last_number_;
  kept_[{step, number}] = {.entries = shared};
  highest_known_ = std::max(highest_known_, step);
  return Contribution{step, number, std::move(shared)};
}

void OpenContributions::BeginWith(Step first) {
  MutexLock lock(&mutex_);
  first_step_ = std::max(first_step_, first);
}

void OpenContributions::GoBackTo(Step next) {
  MutexLock lock(&mutex_);
  kept_.clear();
  waiting_.clear();
  last_repeated_ = std::max(last_repeated_, highest_known_);
  last_forgotten_ = last_number_;
  first_step_ = next;
  highest_step_ = 0;
  ++life_;
  is_forgetting_ = true;
}

void OpenContributions::RepeatUpTo(Step last) {
  MutexLock lock(&mutex_);
  last_repeated_ = std::max(last_repeated_, last);
}

bool OpenContributions::IsRepeating() const {
  MutexLock lock(&mutex_);
  if (is_forgetting_) return true;
  return highest_known_ > 0 && highest_known_ <= last_repeated_;
}

bool OpenContributions::IsForgetting() const {
  MutexLock lock(&mutex_);
  return is_forgetting_;
}

absl::Status OpenContributions::CheckKept(
    const Contribution& contribution) const {
  MutexLock lock(&mutex_);
  if (!Forgets(contribution)) return absl::OkStatus();
  return WentBack(contribution.step, first_step_);
}

void OpenContributions::SetWaiting(const Contribution& contribution) {
  MutexLock lock(&mutex_);
  if (Forgets(contribution)) return;
  highest_step_ = std::max(highest_step_, contribution.step);
  const Id id = {contribution.step, contribution.number};
  const auto found = kept_.find(id);
  if (found == kept_.end()) return;
  found->second.waiting_since = ++last_waiting_;
  const Entries entries = found->second.entries;
  for (const PushEntry& entry : *entries) waiting_[entry.key].insert(id);
  RemoveBelowOpenRounds(*entries);
}

void OpenContributions::Remove(const Contribution& contribution) {
  MutexLock lock(&mutex_);
  RemoveAll({contribution.step, contribution.number});
}

void OpenContributions::RemoveKey(const Contribution& contribution,
                                  absl::string_view key) {
  MutexLock lock(&mutex_);
  if (Forgets(contribution)) return;
  highest_step_ = std::max(highest_step_, contribution.step);
  const auto found = kept_.find({contribution.step, contribution.number});
  if (found != kept_.end()) RemoveKeys(found, {key});
}

void OpenContributions::RemoveUpTo(const Contribution& contribution) {
  MutexLock lock(&mutex_);
  if (Forgets(contribution)) return;
  highest_step_ = std::max(highest_step_, contribution.step);
  RemoveAll({contribution.step, contribution.number});
  RemoveUpTo(contribution.step, *contribution.entries);
}

void OpenContributions::RemoveUpTo(Step step,
                                   const std::vector<PushEntry>& entries) {
  if (kept_.empty() || kept_.begin()->first.first > step) return;
  Keys keys;
  for (const PushEntry& entry : entries) keys.insert(entry.key);
  for (auto kept = kept_.begin();
       kept != kept_.end() && kept->first.first <= step;) {
    const bool may_be_open = kept->second.carried_to > step;
    kept = may_be_open ? std::next(kept) : RemoveKeys(kept, keys);
  }
}

void OpenContributions::RemoveCarried(Step step, const Keys& keys) {
  for (auto kept = kept_.begin();
       kept != kept_.end() && kept->first.first < step;) {
    const Step carried_to = kept->second.carried_to;
    const bool is_over = carried_to > 0 && carried_to <= step;
    kept = is_over ? RemoveKeys(kept, keys) : std::next(kept);
  }
}

void OpenContributions::RemoveTooLate(absl::string_view key) {
  std::set<Step> steps;
  for (auto kept = kept_.end(); kept != kept_.begin();) {
    --kept;
    const bool is_carried =
        kept->second.carried_to > 0 && HasKey(*kept->second.entries, key);
    if (is_carried) steps.insert(kept->first.first);
    if (is_carried && steps.size() > max_open_rounds_) {
      kept = RemoveKeys(kept, {key});
    }
  }
}

void OpenContributions::SetCarried(const Contribution& contribution,
                                   Carried carried) {
  MutexLock lock(&mutex_);
  const Id id = {contribution.step, contribution.number};
  if (Forgets(contribution) || !kept_.contains(id)) return;
  for (auto& [step, entries] : carried) {
    highest_step_ = std::max(highest_step_, contribution.step);
    Keys keys;
    for (const PushEntry& entry : entries) keys.insert(entry.key);
    if (const auto kept = kept_.find(id); kept != kept_.end()) {
      RemoveKeys(kept, keys);
    }
    const auto shared =
        std::make_shared<const std::vector<PushEntry>>(std::move(entries));
    kept_[{contribution.step, ++last_number_}] = {.entries = shared,
                                                  .carried_to = step};
    for (const absl::string_view key : keys) RemoveTooLate(key);
  }
}

void OpenContributions::RemoveBelowOpenRounds(
    const std::vector<PushEntry>& entries) {
  // Namespaces without rounds have no limit.
  if (max_open_rounds_ == 0) return;
  std::map<Id, Keys> closed;
  for (const PushEntry& entry : entries) {
    const std::set<Id>& waiting = waiting_[entry.key];
    // The first of the latest steps, which may be open.
    auto open = waiting.end();
    for (uint32_t n = 0; n < max_open_rounds_ && open != waiting.begin(); ++n) {
      open = waiting.lower_bound({std::prev(open)->first, 0});
    }
    for (auto it = waiting.begin(); it != open; ++it)
      closed[*it].insert(entry.key);
  }
  for (const auto& [id, keys] : closed) {
    RemoveKeys(kept_.find(id), keys);
    RemoveCarried(id.first, keys);
  }
}

void OpenContributions::OnPushReply(const PushReply& reply,
                                    const Contribution& contribution) {
  const bool is_in_an_open_round = std::any_of(
      reply.results.begin(), reply.results.end(), [](const PushResult& result) {
        return result.step != 0 && result.version == 0;
      });
  if (is_in_an_open_round) {
    SetWaiting(contribution);
  } else {
    RemoveUpTo(contribution);
  }
}

uint64_t OpenContributions::WaitingMark() const {
  MutexLock lock(&mutex_);
  return last_waiting_;
}

void OpenContributions::RemoveWaiting(const std::vector<std::string>& keys,
                                      uint64_t waiting) {
  MutexLock lock(&mutex_);
  const Keys read(keys.begin(), keys.end());
  std::set<Id> ids;
  for (const absl::string_view key : read) {
    const auto found = waiting_.find(key);
    if (found != waiting_.end()) {
      ids.insert(found->second.begin(), found->second.end());
    }
  }
  for (const Id& id : ids) {
    const auto kept = kept_.find(id);
    if (kept->second.waiting_since > waiting) continue;
    RemoveKeys(kept, read);
    RemoveCarried(id.first, read);
  }
}

void OpenContributions::RemoveAll(Id id) {
  const auto kept = kept_.find(id);
  if (kept == kept_.end()) return;
  for (const PushEntry& entry : *kept->second.entries)
    RemoveFromWaiting(kept->first, entry.key);
  kept_.erase(kept);
}

void OpenContributions::RemoveFromWaiting(Id id, absl::string_view key) {
  const auto waiting = waiting_.find(key);
  if (waiting == waiting_.end()) return;
  waiting->second.erase(id);
  if (waiting->second.empty()) waiting_.erase(waiting);
}

OpenContributions::KeptByStep::iterator OpenContributions::RemoveKeys(
    KeptByStep::iterator kept, const Keys& keys) {
  std::vector<PushEntry> others;
  for (const PushEntry& entry : *kept->second.entries) {
    if (!keys.contains(entry.key)) {
      others.push_back(entry);
    } else {
      RemoveFromWaiting(kept->first, entry.key);
    }
  }
  if (others.empty()) return kept_.erase(kept);
  kept->second.entries =
      std::make_shared<const std::vector<PushEntry>>(std::move(others));
  return std::next(kept);
}

std::vector<OpenContributions::Contribution> OpenContributions::InOrder()
    const {
  MutexLock lock(&mutex_);
  std::vector<Contribution> contributions;
  for (const auto& [id, kept] : kept_) {
    contributions.push_back(
        {id.first, id.second, kept.entries, kept.carried_to > 0});
  }
  return contributions;
}

bool OpenContributions::Has(Step step, absl::string_view key) const {
  MutexLock lock(&mutex_);
  for (auto kept = kept_.lower_bound({step, 0});
       kept != kept_.end() && kept->first.first == step; ++kept) {
    if (HasKey(*kept->second.entries, key)) return true;
  }
  return false;
}

bool OpenContributions::IsRepairable(const absl::Status& status) const {
  const Reason reason = ReasonOf(status);
  if (reason == Reason::kRoundFailed) {
    std::optional<ErrorInfo> info = ErrorInfoOf(status);
    Step step = 0;
    return info && absl::SimpleAtoi(info->metadata["step"], &step) &&
           Has(step, info->metadata["key"]);
  }
  return reason == Reason::kStepClosed || reason == Reason::kServerRestarted ||
         IsNoMember(status);
}

Step OpenContributions::NextStep() const {
  MutexLock lock(&mutex_);
  return LowestOpen();
}

Step OpenContributions::Resume(absl::FunctionRef<void()> begin_anew) {
  MutexLock lock(&mutex_);
  if (is_forgetting_) begin_anew();
  const Step next = LowestOpen();
  highest_known_ = is_forgetting_ ? next : std::max(highest_known_, next);
  is_forgetting_ = false;
  return next;
}

Step OpenContributions::LowestOpen() const {
  const auto first = std::find_if(
      kept_.begin(), kept_.end(),
      [](const auto& kept) { return kept.second.carried_to == 0; });
  const Step lowest =
      first == kept_.end() ? highest_step_ + 1 : first->first.first;
  return std::max(first_step_, lowest);
}

}  // namespace tensorkv
