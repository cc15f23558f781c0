#include "service/mirror/mirror_member.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tensorkv {

using v1::RoundOutcome;

namespace {

// Bound a batch, so that its messages stay far below what servers take: of the
// request, and of the answer in which each round may have an error.
constexpr uint64_t kMaxBatchBytes = 1 << 20;
constexpr size_t kMaxBatchRounds = 4096;

// At most so much of a message is about the round.
uint64_t AnnouncedBytes(const RoundToSum& round) {
  constexpr uint64_t kNumbers = 64;
  constexpr uint64_t kTensor = 20;
  return round.key.size() + kNumbers + round.tensors.size() * kTensor;
}

absl::Status DoesNotWait(absl::string_view key, Step step) {
  return absl::FailedPreconditionError(
      absl::StrCat("round ", step, " of \"", key,
                   "\": it does not wait for its sum any more"));
}

void Fill(const RoundToSum& round, v1::AnnouncedRound& message) {
  message.set_key(round.key);
  message.set_step(round.step);
  message.set_version(round.version);
  message.set_dtype(static_cast<v1::DType>(round.dtype));
  message.set_version_floor(round.version_floor);
  message.set_num_elements(round.num_elements);
  for (const ContributedTensor& tensor : round.tensors) {
    v1::ContributedTensor& contributed = *message.add_tensors();
    contributed.set_rank(tensor.rank);
    contributed.set_dtype(static_cast<v1::DType>(tensor.dtype));
    if (tensor.weight != 1) contributed.set_weight(tensor.weight);
  }
}

void Fill(const MirrorSums::Counted& counted, v1::CountedRound& message) {
  message.set_attempt(counted.attempt);
  message.set_step(counted.step);
  message.set_version(counted.version);
}

}  // namespace

std::vector<MirrorMember::BatchPtr> MirrorMember::BatchesOf(
    const std::string& name_space, const RefPtr<BudgetAccount>& account,
    std::vector<RoundToSum> rounds, const Summed& summed) {
  std::vector<BatchPtr> batches;
  uint64_t bytes = 0;
  for (size_t i = 0; i < rounds.size(); ++i) {
    bytes += AnnouncedBytes(rounds[i]);
    if (batches.empty() || bytes > kMaxBatchBytes ||
        batches.back()->rounds.size() == kMaxBatchRounds) {
      bytes = AnnouncedBytes(rounds[i]);
      Batch& begun = *batches.emplace_back(std::make_shared<Batch>());
      begun.name_space = name_space;
      begun.account = account;
      begun.summed = [summed, first = i](std::vector<SummedRound> ended) {
        for (SummedRound& each : ended) each.place += first;
        summed(std::move(ended));
      };
    }
    batches.back()->rounds.push_back(std::move(rounds[i]));
  }
  return batches;
}

void MirrorMember::Sum(const std::string& name_space,
                       const RefPtr<BudgetAccount>& account,
                       std::vector<RoundToSum> rounds, Summed summed) {
  for (const BatchPtr& batch :
       BatchesOf(name_space, account, std::move(rounds), summed)) {
    batch->has_ended.resize(batch->rounds.size());
    batch->lacks.resize(batch->rounds.size());
    batch->num_left = batch->rounds.size();
    SumBatch(batch);
  }
}

void MirrorMember::SumBatch(const BatchPtr& batch) {
  std::vector<SummedRound> refused;
  std::vector<Waiting> former;
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < batch->rounds.size(); ++i) {
      if (!refusal_.ok()) {
        refused.push_back({i, refusal_});
        continue;
      }
      const RoundToSum& round = batch->rounds[i];
      const KeyName name = {batch->name_space, round.key};
      const auto waiting = waiting_.find(name);
      if (waiting != waiting_.end()) {
        const uint64_t attempt = waiting->second.attempt;
        former.push_back(ExtractWaiting(waiting, std::next(waiting)).front());
        // The leader must not hear that this server has the sum of the former.
        if (former.back().round().version == round.version) {
          former.back().attempt = attempt;
        }
      }
      waiting_[name] = {batch, i};
      sums_.KeepOnly(name, round.step, round.version);
    }
  }
  EndExtracted(former, absl::AbortedError("another round of the key has come"));
  if (refused.empty()) return Announce(batch);
  batch->summed(std::move(refused));
}

v1::AnnounceRoundsRequest MirrorMember::RequestOf(const Batch& batch,
                                                  std::vector<size_t>& places) {
  auto request = environment_.group->NewRequest<v1::AnnounceRoundsRequest>();
  request.set_namespace_(batch.name_space);
  if (environment_.device_ranges != nullptr) {
    *request.mutable_link() = environment_.device_ranges->link();
  }
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < batch.rounds.size(); ++i) {
    if (batch.has_ended[i]) continue;
    places.push_back(i);
    v1::AnnouncedRound& round = *request.add_rounds();
    Fill(batch.rounds[i], round);
    round.set_lacks(batch.lacks[i]);
    const KeyName name = {batch.name_space, batch.rounds[i].key};
    if (const auto counted = sums_.LastCounted(name)) {
      Fill(*counted, *round.mutable_counted());
    }
  }
  return request;
}

void MirrorMember::Announce(const BatchPtr& batch) {
  std::vector<size_t> places;
  v1::AnnounceRoundsRequest request = RequestOf(*batch, places);
  if (places.empty()) return;
  const MirrorGroup& group = *environment_.group;
  group.peers[group.leader()]->Call(
      std::move(request), environment_.times.announce(),
      [self = shared_from_this(), batch,
       places](const absl::StatusOr<v1::AnnounceRoundsResponse>& response) {
        self->OnOutcomes(batch, places, response);
      });
}

v1::PingResponse MirrorMember::Ping(const v1::PingRequest& message) const {
  v1::PingResponse response;
  for (const std::string& key : message.keys()) {
    v1::CountedRound& told = *response.add_counted();
    if (const auto counted = sums_.LastCounted({message.namespace_(), key})) {
      Fill(*counted, told);
    }
  }
  return response;
}

std::optional<absl::StatusOr<SumOfRound>> MirrorMember::ApplyOutcome(
    Batch& batch, size_t place,
    const absl::StatusOr<v1::AnnounceRoundsResponse>& response, int index) {
  if (!response.ok()) return response.status();
  if (index >= response->outcomes_size()) {
    return absl::InternalError("expected an outcome of each round");
  }
  const RoundOutcome& outcome = response->outcomes(index);
  const KeyName name = {batch.name_space, batch.rounds[place].key};
  switch (outcome.state()) {
    case RoundOutcome::WAITING:
      return std::nullopt;
    case RoundOutcome::SUMMED: {
      const RoundToSum& round = batch.rounds[place];
      sums_.RememberCounted(name,
                            {outcome.attempt(), round.step, round.version});
      std::optional<SumOfRound> sum = sums_.Find(name, outcome.attempt());
      if (sum) return *std::move(sum);
      batch.lacks[place] = outcome.attempt();
      return std::nullopt;
    }
    case RoundOutcome::FAILED:
      // No attempt of the round is made once any member has heard that the sum
      // of an earlier one counts, be it of another leader.
      if (outcome.attempt() != 0) sums_.Drop(name);
      return StatusOf(outcome);
    default:
      return absl::InternalError("expected an outcome that this server knows");
  }
}

bool MirrorMember::MayAskAgain(const BatchPtr& batch,
                               const absl::Status& status) {
  // So often within its patience.
  constexpr int kMostTimes = 20;
  Alarms& alarms = *environment_.alarms;
  const absl::Duration patience = environment_.times.patience;
  {
    MutexLock lock(&mutex_);
    if (!absl::IsUnavailable(status) || is_stopped_) {
      batch->give_up = absl::InfiniteDuration();
      return false;
    }
    if (batch->give_up == absl::InfiniteDuration()) {
      batch->give_up = alarms.Now() + patience;
    }
    if (alarms.Now() >= batch->give_up) return false;
  }
  alarms.Schedule(
      alarms.Now() + patience / kMostTimes,
      [self = shared_from_this(), batch] { self->Announce(batch); });
  return true;
}

void MirrorMember::OnOutcomes(
    const BatchPtr& batch, const std::vector<size_t>& places,
    const absl::StatusOr<v1::AnnounceRoundsResponse>& response) {
  if (MayAskAgain(batch, response.status())) return;
  std::vector<SummedRound> ended;
  std::vector<uint64_t> dropped;
  // Nobody needs them, and they go before the ends are heard.
  std::vector<std::vector<ContributedTensor>> contributed;
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < places.size(); ++i) {
      const size_t place = places[i];
      if (batch->has_ended[place]) continue;
      std::optional<absl::StatusOr<SumOfRound>> end =
          ApplyOutcome(*batch, place, response, static_cast<int>(i));
      if (!end) continue;
      batch->has_ended[place] = true;
      contributed.push_back(std::move(batch->rounds[place].tensors));
      const auto waiting =
          waiting_.find({batch->name_space, batch->rounds[place].key});
      if (waiting != waiting_.end() && waiting->second.batch == batch) {
        // Else the leader could be told that this server has all sums.
        dropped.push_back(end->ok() ? ReleaseAttempt(waiting->second)
                                    : waiting->second.attempt);
        waiting_.erase(waiting);
      }
      ended.push_back({place, *std::move(end)});
    }
    num_untold_ += ended.size();
  }
  DropAttempts(dropped);
  contributed.clear();
  if (!ended.empty()) ReportEnded(*batch, std::move(ended));
  Announce(batch);
}

void MirrorMember::ReportEnded(Batch& batch, std::vector<SummedRound> ended) {
  const size_t num_ended = ended.size();
  for (const SummedRound& each : ended) {
    ++(each.sum.ok() ? environment_.counts->rounds_summed
                     : environment_.counts->rounds_failed);
  }
  batch.summed(std::move(ended));
  // Destroyed without the mutex, as it may be the last to have the namespace.
  Summed summed;
  MutexLock lock(&mutex_);
  batch.num_left -= num_ended;
  if (batch.num_left == 0) summed.swap(batch.summed);
  num_untold_ -= num_ended;
  if (num_untold_ == 0) all_told_.SignalAll();
}

MirrorMember::Waiting* MirrorMember::FindWaiting(const KeyName& name, Step step,
                                                 Version version) {
  const auto waiting = waiting_.find(name);
  if (waiting == waiting_.end()) return nullptr;
  const RoundToSum& round = waiting->second.round();
  const bool is_it = round.step == step && round.version == version;
  return is_it ? &waiting->second : nullptr;
}

absl::StatusOr<v1::BeginSumsResponse> MirrorMember::Begin(
    const v1::BeginSumsRequest& message) {
  const auto attempt = std::make_shared<Attempt>();
  attempt->id = message.attempt();
  if (message.rounds().empty()) {
    return absl::InvalidArgumentError("expected rounds, got none");
  }
  v1::BeginSumsResponse response;
  std::vector<SumAttempt::Round> rounds;
  std::vector<uint64_t> former;
  bool all_wait = true;
  {
    MutexLock lock(&mutex_);
    for (const v1::RoundOfAll& round : message.rounds()) {
      const KeyName name = {message.namespace_(), round.key()};
      const Waiting* const waiting =
          FindWaiting(name, round.step(), round.version());
      RoundOutcome& outcome = *response.add_outcomes();
      if (waiting == nullptr) {
        all_wait = false;
        SetFailed(outcome, DoesNotWait(round.key(), round.step()));
        continue;
      }
      // That a leader has given up, or one that was started anew.
      former.push_back(waiting->attempt);
      const RoundToSum& own = waiting->round();
      attempt->account = waiting->batch->account;
      attempt->keys.push_back(name);
      attempt->rounds.emplace_back(own.step, own.version);
      rounds.push_back({own, round});
    }
    if (!all_wait) return response;
    if (!attempts_.try_emplace(attempt->id, attempt).second) {
      return absl::FailedPreconditionError("the attempt has begun before");
    }
  }
  DropAttempts(former);
  absl::Status status = ChooseTransport(attempt, message.communicator());
  if (status.ok()) status = PrepareMemory(*attempt, std::move(rounds));
  if (status.ok()) status = AssignToRounds(attempt);
  if (status.ok()) return v1::BeginSumsResponse();
  DropAttempts({attempt->id});
  return status;
}

absl::Status MirrorMember::AssignToRounds(const AttemptPtr& attempt) {
  std::vector<uint64_t> former;
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < attempt->keys.size(); ++i) {
      const auto& [step, version] = attempt->rounds[i];
      if (FindWaiting(attempt->keys[i], step, version) != nullptr) continue;
      return DoesNotWait(attempt->keys[i].second, step);
    }
    for (size_t i = 0; i < attempt->keys.size(); ++i) {
      Waiting& waiting = waiting_.find(attempt->keys[i])->second;
      former.push_back(waiting.attempt);
      waiting.attempt = attempt->id;
    }
    attempt->num_waiting = attempt->keys.size();
    attempt->may_run = true;
  }
  DropAttempts(former);
  return absl::OkStatus();
}

uint64_t MirrorMember::ReleaseAttempt(const Waiting& waiting) {
  const auto attempt = attempts_.find(waiting.attempt);
  const bool is_last =
      attempt != attempts_.end() && --attempt->second->num_waiting == 0;
  return is_last ? waiting.attempt : 0;
}

std::vector<MirrorMember::Waiting> MirrorMember::ExtractWaiting(
    WaitingRounds::iterator first, WaitingRounds::iterator last) {
  std::vector<Waiting> taken;
  for (auto round = first; round != last; ++round) {
    Waiting& waiting = taken.emplace_back(std::move(round->second));
    waiting.attempt = ReleaseAttempt(waiting);
    waiting.batch->has_ended[waiting.place] = true;
    waiting.contributed =
        std::move(waiting.batch->rounds[waiting.place].tensors);
  }
  waiting_.erase(first, last);
  num_untold_ += taken.size();
  return taken;
}

void MirrorMember::EndExtracted(std::vector<Waiting>& rounds,
                                const absl::Status& status) {
  std::vector<uint64_t> attempts;
  for (const Waiting& each : rounds) attempts.push_back(each.attempt);
  DropAttempts(attempts);
  for (Waiting& each : rounds) {
    each.contributed.clear();
    std::vector<SummedRound> ended;
    ended.push_back({each.place, status});
    ReportEnded(*each.batch, std::move(ended));
  }
}

void MirrorMember::Applied(const std::string& name_space, absl::string_view key,
                           Step step) {
  sums_.Applied({name_space, std::string(key)}, step);
}

void MirrorMember::Remove(const std::string& name_space, const std::string& key,
                          Version version) {
  const KeyName name = {name_space, key};
  std::vector<Waiting> waiting;
  {
    MutexLock lock(&mutex_);
    const auto round = waiting_.find(name);
    if (round != waiting_.end() && round->second.round().version <= version) {
      waiting = ExtractWaiting(round, std::next(round));
    }
    sums_.Remove(name, version);
  }
  EndExtracted(waiting, absl::AbortedError("the key has gone"));
}

void MirrorMember::Forget(const std::string& name_space) {
  std::vector<Waiting> waiting;
  {
    MutexLock lock(&mutex_);
    const auto [first, last] = KeysOf(waiting_, name_space);
    waiting = ExtractWaiting(first, last);
    sums_.Forget(name_space);
  }
  EndExtracted(waiting,
               absl::AbortedError("the namespace has gone, or was replaced"));
}

bool MirrorMember::Drain(const absl::Status& status, absl::Duration timeout) {
  Alarms& alarms = *environment_.alarms;
  const absl::Duration end = alarms.Now() + timeout;
  std::vector<Waiting> idle;
  {
    MutexLock lock(&mutex_);
    refusal_ = status;
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      const auto round = next++;
      // One that was announced again may have a sum that counts.
      if (round->second.attempt != 0 || sums_.Has(round->first)) {
        continue;
      }
      idle.push_back(ExtractWaiting(round, next).front());
    }
  }
  EndExtracted(idle, status);
  MutexLock lock(&mutex_);
  bool is_over = false;
  while (!waiting_.empty() || num_untold_ > 0) {
    if (is_over) return false;
    is_over = all_told_.WaitWithTimeout(&mutex_, end - alarms.Now());
  }
  return true;
}

void MirrorMember::Stop(const absl::Status& status) {
  std::vector<Waiting> waiting;
  std::map<uint64_t, AttemptPtr> attempts;
  {
    MutexLock lock(&mutex_);
    refusal_ = status;
    is_stopped_ = true;
    waiting = ExtractWaiting(waiting_.begin(), waiting_.end());
    attempts.swap(attempts_);
  }
  for (const auto& [id, attempt] : attempts) EndTransfers(id);
  EndExtracted(waiting, status);
}

}  // namespace tensorkv
