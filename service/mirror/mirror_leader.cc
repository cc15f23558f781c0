#include "service/mirror/mirror_leader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {

using v1::RoundOutcome;

namespace {

// Bound what one attempt takes, beyond its first round: members hold that much
// several times, and the bytes of all announcements go in one message.
constexpr size_t kMaxRounds = 4096;
constexpr int64_t kMaxElements = 16 << 20;
constexpr size_t kMaxAnnouncedBytes = 4 << 20;

// An announcement is answered in part after MirrorTimes::partial_answer for
// each so many of its bytes: where rounds trickle, few bytes per second are
// announced again.
constexpr double kPartialAnswerBytes = 4096;

absl::Status NameSpaceHasGone() {
  return absl::AbortedError("the namespace has gone, or was replaced");
}

absl::Status KeyHasGone() { return absl::AbortedError("the key has gone"); }

absl::Status AnnouncedAgain() {
  return absl::AbortedError("the server has announced the round again");
}

template <typename Replies>
absl::Status FirstOf(const Replies& replies) {
  absl::Status first;
  for (const auto& reply : replies) first.Update(reply.status());
  return first;
}

// A worker may have contributed at a server that was its own before the servers
// became others, and then at its present one.
template <typename Announced>
absl::Status CheckRanks(const std::string& key,
                        const std::vector<Announced>& announced) {
  std::set<uint32_t> ranks;
  for (const Announced& each : announced) {
    std::set<uint32_t> of_member;
    for (const v1::ContributedTensor& tensor : each.round.tensors()) {
      of_member.insert(tensor.rank());
    }
    for (const uint32_t rank : of_member) {
      if (ranks.insert(rank).second) continue;
      return absl::AbortedError(
          absl::StrCat("key \"", key, "\": worker ", rank,
                       " has contributed at two servers, as they became "
                       "others meanwhile"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

MirrorLeader::MirrorLeader(Environment environment)
    : environment_(std::move(environment)),
      // None of a former life of this server is taken for one of this.
      last_attempt_(
          absl::Uniform<uint64_t>(absl::BitGen(), 1, uint64_t{1} << 62)) {}

void MirrorLeader::AnswerCalls(const Calls& to_answer) {
  Calls ended;
  {
    MutexLock lock(&mutex_);
    for (const CallPtr& call : to_answer) {
      if (call->num_open > 0) {
        if (call->partial_alarm == 0) SchedulePartialAnswer(call);
        continue;
      }
      if (std::exchange(call->is_answered, true)) continue;
      if (call->patience_alarm != 0) alarms_.Cancel(call->patience_alarm);
      if (call->partial_alarm != 0) alarms_.Cancel(call->partial_alarm);
      ended.push_back(call);
    }
  }
  for (const CallPtr& call : ended) {
    std::move(call->done)(std::move(call->response));
  }
}

void MirrorLeader::SetOutcome(const Announced& announced, State state,
                              Calls& to_answer, uint64_t attempt,
                              const absl::Status& status) {
  Call& call = *announced.call;
  RoundOutcome& outcome = *call.response.mutable_outcomes(announced.place);
  outcome.set_state(state);
  outcome.set_attempt(attempt);
  if (!status.ok()) SetFailed(outcome, status);
  --call.num_open;
  const bool was_partial = std::exchange(call.is_partial, true);
  if (call.num_open == 0 || !was_partial) to_answer.push_back(announced.call);
}

void MirrorLeader::Announce(const v1::AnnounceRoundsRequest& request,
                            MirrorCallback<v1::AnnounceRoundsRequest> done) {
  const auto call = std::make_shared<Call>();
  call->from = request.from().place();
  call->name_space = request.namespace_();
  call->link = request.link();
  call->num_open = request.rounds_size();
  call->done = std::move(done);
  const double units =
      static_cast<double>(request.ByteSizeLong()) / kPartialAnswerBytes;
  call->partial_delay =
      std::min(times_.partial_answer * std::max(units, 1.0), times_.patience);
  for (int i = 0; i < request.rounds_size(); ++i) call->response.add_outcomes();
  Calls to_answer;
  if (call->num_open == 0) to_answer.push_back(call);
  AttemptPtr next;
  {
    MutexLock lock(&mutex_);
    NameSpace& name_space = namespaces_[call->name_space];
    for (int i = 0; i < request.rounds_size(); ++i) {
      Announced announced = {call, i, request.rounds(i)};
      if (stopped_.ok()) {
        AddAnnounced(name_space, std::move(announced), to_answer);
      } else {
        SetOutcome(announced, RoundOutcome::FAILED, to_answer, 0, stopped_);
      }
    }
    if (call->num_open > 0) SchedulePatienceAlarm(call);
    next = TakeNext(call->name_space);
  }
  AnswerCalls(to_answer);
  Start(next);
}

void MirrorLeader::FailAnnounced(Key& key, const absl::Status& status,
                                 Calls& to_answer) {
  for (Announced& each : key.announced) {
    if (each.call == nullptr) continue;
    SetOutcome(each, RoundOutcome::FAILED, to_answer, 0, status);
    each = {};
  }
}

void MirrorLeader::FailAllAnnounced(NameSpace& name_space,
                                    const absl::Status& status,
                                    Calls& to_answer) {
  for (auto& [name, key] : name_space.keys) {
    FailAnnounced(key, status, to_answer);
  }
  name_space.ready.clear();
}

MirrorLeader::Keys::iterator MirrorLeader::EraseIfIdle(Keys& keys,
                                                       Keys::iterator key) {
  const bool is_announced =
      std::any_of(key->second.announced.begin(), key->second.announced.end(),
                  [](const Announced& each) { return each.call != nullptr; });
  const bool is_idle = !is_announced && !key->second.is_under_way &&
                       key->second.last.attempt == 0;
  return is_idle ? keys.erase(key) : std::next(key);
}

void MirrorLeader::Remove(const std::string& name, const std::string& key,
                          uint64_t version) {
  Calls to_answer;
  {
    MutexLock lock(&mutex_);
    const auto name_space = namespaces_.find(name);
    if (name_space == namespaces_.end()) return;
    Keys& keys = name_space->second.keys;
    const auto found = keys.find(key);
    if (found == keys.end()) return;
    Key& gone = found->second;
    for (Announced& each : gone.announced) {
      if (each.call == nullptr || each.round.version() > version) continue;
      SetOutcome(each, RoundOutcome::FAILED, to_answer, 0, KeyHasGone());
      each = {};
    }
    if (gone.last.version <= version) gone.last = {};
    gone.removed = version;
    EraseIfIdle(keys, found);
  }
  AnswerCalls(to_answer);
}

void MirrorLeader::Forget(const std::string& name) {
  Calls to_answer;
  {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(name);
    if (found == namespaces_.end()) return;
    NameSpace& name_space = found->second;
    FailAllAnnounced(name_space, NameSpaceHasGone(), to_answer);
    for (auto key = name_space.keys.begin(); key != name_space.keys.end();) {
      key->second.last = {};
      key = EraseIfIdle(name_space.keys, key);
    }
    if (name_space.attempt != nullptr) {
      name_space.attempt->is_forgotten = true;
    } else {
      namespaces_.erase(found);
    }
  }
  AnswerCalls(to_answer);
}

size_t MirrorLeader::num_keys() const {
  MutexLock lock(&mutex_);
  size_t num_keys = 0;
  for (const auto& [name, name_space] : namespaces_) {
    num_keys += name_space.keys.size();
  }
  return num_keys;
}

void MirrorLeader::Stop(const absl::Status& status) {
  Calls to_answer;
  {
    MutexLock lock(&mutex_);
    stopped_ = status;
    for (auto& [name, name_space] : namespaces_) {
      FailAllAnnounced(name_space, status, to_answer);
    }
  }
  AnswerCalls(to_answer);
}

void MirrorLeader::AddAnnounced(NameSpace& name_space, Announced announced,
                                Calls& to_answer) {
  const std::string name = announced.round.key();
  Key& key = name_space.keys[name];
  key.announced.resize(group_.size());
  Announced& place = key.announced[announced.call->from];
  if (place.call != nullptr) {
    SetOutcome(place, RoundOutcome::FAILED, to_answer, 0, AnnouncedAgain());
  }
  place = std::move(announced);
  UpdateKey(name_space, name, key, to_answer);
  EraseIfIdle(name_space.keys, name_space.keys.find(name));
}

void MirrorLeader::UpdateKey(NameSpace& name_space, const std::string& name,
                             Key& key, Calls& to_answer) {
  if (key.is_under_way) return;
  for (const Announced& each : key.announced) {
    if (each.call != nullptr) LearnCounted(key, each.round.counted());
  }
  for (Announced& each : key.announced) {
    if (each.call == nullptr) continue;
    const bool has_counted = key.last.attempt != 0 &&
                             each.round.step() == key.last.step &&
                             each.round.version() == key.last.version;
    if (!has_counted || each.round.lacks() == key.last.attempt) continue;
    SetOutcome(each, RoundOutcome::SUMMED, to_answer, key.last.attempt);
    each = {};
  }
  if (!IsReady(key)) return;
  const absl::Status agrees = CheckAgree(name, key.announced);
  if (agrees.ok()) return name_space.ready.push_back(name);
  FailAnnounced(key, agrees, to_answer);
}

void MirrorLeader::LearnCounted(Key& key, const v1::CountedRound& counted) {
  if (counted.attempt() == 0) return;
  const bool is_announced = std::any_of(
      key.announced.begin(), key.announced.end(), [&](const Announced& each) {
        return each.call != nullptr && each.round.step() == counted.step() &&
               each.round.version() == counted.version();
      });
  if (!is_announced) return;
  key.last = {counted.attempt(), counted.step(), counted.version()};
}

absl::Status MirrorLeader::CheckAgree(
    const std::string& key, const std::vector<Announced>& announced) const {
  const v1::AnnouncedRound& first = announced.front().round;
  for (const Announced& each : announced) {
    const v1::AnnouncedRound& round = each.round;
    if (round.step() == first.step() && round.version() == first.version() &&
        round.dtype() == first.dtype() &&
        round.num_elements() == first.num_elements()) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "key \"", key, "\": expected the same key on all servers, got step ",
        first.step(), " of version ", first.version(), " with ",
        first.num_elements(), " elements on server ", group_.servers.front(),
        ", step ", round.step(), " of version ", round.version(), " with ",
        round.num_elements(), " on server ", group_.servers[each.call->from],
        ": restore one checkpoint on all"));
  }
  return CheckRanks(key, announced);
}

void MirrorLeader::TakeReady(NameSpace& name_space, Attempt& attempt) const {
  int64_t num_elements = 0;
  size_t num_bytes = 0;
  while (!name_space.ready.empty() && attempt.rounds.size() < kMaxRounds) {
    const std::string& key_name = name_space.ready.front();
    const auto found = name_space.keys.find(key_name);
    // Else it was removed, or somebody has given up.
    if (found != name_space.keys.end() && IsReady(found->second)) {
      Key& key = found->second;
      num_elements += key.announced.front().round.num_elements();
      for (const Announced& each : key.announced) {
        num_bytes += each.round.ByteSizeLong();
      }
      const bool is_full =
          num_elements > kMaxElements || num_bytes > kMaxAnnouncedBytes;
      if (!attempt.rounds.empty() && is_full) break;
      key.is_under_way = true;
      attempt.rounds.emplace(
          key_name,
          std::exchange(key.announced, std::vector<Announced>(group_.size())));
    }
    name_space.ready.pop_front();
  }
}

MirrorLeader::AttemptPtr MirrorLeader::TakeNext(const std::string& name) {
  NameSpace& name_space = namespaces_[name];
  if (name_space.attempt != nullptr) return nullptr;
  auto attempt = std::make_shared<Attempt>();
  TakeReady(name_space, *attempt);
  if (attempt->rounds.empty()) {
    if (name_space.keys.empty()) namespaces_.erase(name);
    return nullptr;
  }
  attempt->id = ++last_attempt_;
  attempt->name_space = name;
  name_space.attempt = attempt;
  return Enqueue(attempt) ? attempt : nullptr;
}

void MirrorLeader::TellWhyNotOnDevices(const absl::Status& why) {
  constexpr absl::Duration kTellAgain = absl::Hours(1);
  absl::Duration& until = told_until_[why.code()];
  if (!environment_.not_on_devices || alarms_.Now() < until) return;
  until = alarms_.Now() + kTellAgain;
  environment_.not_on_devices(why);
}

std::vector<uint64_t> MirrorLeader::LinksOf(const Attempt& attempt) {
  if (environment_.link == nullptr) return {};
  std::vector<uint64_t> links;
  const std::vector<Announced>& first = attempt.rounds.begin()->second;
  const uint32_t version = environment_.link->version();
  for (const Announced& each : first) links.push_back(each.call->link.id());
  for (const auto& [key, announced] : attempt.rounds) {
    for (uint32_t i = 0; i < group_.size(); ++i) {
      const Call& call = *announced[i].call;
      if (call.has_failed_on_devices) return {};
      if (call.link.version() != version) {
        TellWhyNotOnDevices(absl::FailedPreconditionError(absl::StrCat(
            "server ", group_.servers[i], ": expected version ", version,
            " of NCCL, got ",
            call.link.version() == 0 ? "none"
                                     : absl::StrCat(call.link.version()))));
        return {};
      }
      // Else the server was started again between announcements.
      if (call.link.id() != links[i]) return {};
    }
  }
  return ShareAGpu(first) ? std::vector<uint64_t>() : links;
}

bool MirrorLeader::ShareAGpu(const std::vector<Announced>& servers) {
  std::set<std::string> gpus;
  for (const Announced& each : servers) {
    const std::string& gpu = each.call->link.gpu();
    if (gpu.empty() || gpus.insert(gpu).second) continue;
    TellWhyNotOnDevices(absl::FailedPreconditionError(
        absl::StrCat("two servers are on GPU ", gpu, ", which NCCL refuses")));
    return true;
  }
  return false;
}

bool MirrorLeader::Enqueue(const AttemptPtr& attempt) {
  std::vector<uint64_t> links = LinksOf(*attempt);
  if (links.empty() || !meeting_.ChooseForNext(links)) return true;
  attempt->links = std::move(links);
  queue_.push_back(attempt);
  return queue_.size() == 1;
}

auto MirrorLeader::TakeNextAfter(const Attempt& attempt)
    -> std::vector<AttemptPtr> {
  std::vector<AttemptPtr> next;
  if (!attempt.links.empty()) queue_.pop_front();
  if (!attempt.links.empty() && !queue_.empty()) next.push_back(queue_.front());
  next.push_back(TakeNext(attempt.name_space));
  return next;
}

absl::StatusOr<std::string> MirrorLeader::CommunicatorOf(
    const Attempt& attempt) {
  {
    MutexLock lock(&mutex_);
    std::string id = meeting_.IdOf(attempt.links);
    if (!id.empty()) return id;
  }
  ASSIGN_OR_RETURN(const std::string id, environment_.link->NewGroupId());
  MutexLock lock(&mutex_);
  meeting_.SetId(attempt.links, id);
  return id;
}

// Runs on the executor where devices are to meet: making an id takes a while.
void MirrorLeader::Start(const AttemptPtr& attempt) {
  if (attempt == nullptr) return;
  if (attempt->links.empty()) return AskToBegin(attempt);
  absl::Status stopped;
  {
    MutexLock lock(&mutex_);
    stopped = stopped_;
    // Else the executor may have gone.
    if (stopped.ok()) {
      executor_.Submit([self = shared_from_this(), attempt] {
        absl::StatusOr<std::string> id = self->CommunicatorOf(*attempt);
        if (!id.ok()) return self->EndAttempt(attempt, id.status());
        attempt->communicator = *std::move(id);
        self->AskToBegin(attempt);
      });
    }
  }
  if (!stopped.ok()) EndAttempt(attempt, stopped);
}

void MirrorLeader::AskToBegin(const AttemptPtr& attempt) {
  auto begin = group_.NewRequest<v1::BeginSumsRequest>();
  begin.set_attempt(attempt->id);
  begin.set_namespace_(attempt->name_space);
  begin.set_communicator(attempt->communicator);
  for (const auto& [key, announced] : attempt->rounds) {
    v1::RoundOfAll& round = *begin.add_rounds();
    round.set_key(key);
    round.set_step(announced.front().round.step());
    round.set_version(announced.front().round.version());
    for (const Announced& each : announced) {
      round.set_version_floor(
          std::max(round.version_floor(), each.round.version_floor()));
      *round.add_members()->mutable_tensors() = each.round.tensors();
    }
  }
  // An attempt between devices may be repeated, and no BeginSums of it may
  // come after that.
  const WaitFor wait_for =
      attempt->links.empty() ? WaitFor::kAllOrError : WaitFor::kAll;
  AskMembers(group_, begin, times_.attempt,
             std::vector<bool>(group_.size(), true), wait_for,
             [self = shared_from_this(), attempt](const auto& begun) {
               self->OnBegun(attempt, begun);
             });
}

void MirrorLeader::OnBegun(const AttemptPtr& attempt,
                           const MirrorReplies<v1::BeginSumsRequest>& begun) {
  const absl::Status status = FirstOf(begun);
  if (!status.ok()) return EndAttempt(attempt, status);
  std::map<int, absl::Status> gone;
  for (const auto& reply : begun) {
    for (int i = 0; i < reply->outcomes_size(); ++i) {
      const RoundOutcome& outcome = reply->outcomes(i);
      if (outcome.state() != RoundOutcome::FAILED) continue;
      gone.try_emplace(i, StatusOf(outcome));
    }
  }
  if (!gone.empty()) return RetryWithout(attempt, gone);
  attempt->has_run = true;
  auto run = group_.NewRequest<v1::RunSumsRequest>();
  run.set_attempt(attempt->id);
  run.set_timeout_ms(absl::ToInt64Milliseconds(times_.attempt));
  // Members give up a little before this does.
  AskAllMembers(group_, run, 2 * times_.attempt,
                [self = shared_from_this(), attempt](const auto& replies) {
                  self->EndAttempt(attempt, FirstOf(replies));
                });
}

void MirrorLeader::Reannounce(Key& key, std::vector<Announced>& announced,
                              const absl::Status& status, Calls& to_answer) {
  for (size_t i = 0; i < announced.size(); ++i) {
    Announced& place = key.announced[i];
    // Whoever has given up meanwhile may have come again.
    const absl::Status end =
        status.ok() && place.call != nullptr ? AnnouncedAgain() : status;
    if (end.ok()) {
      place = std::move(announced[i]);
      // Its alarm may have run while the round was under way.
      if (place.call->patience_alarm == 0) SchedulePatienceAlarm(place.call);
    } else {
      SetOutcome(announced[i], RoundOutcome::FAILED, to_answer, 0, end);
    }
  }
}

void MirrorLeader::RetryWithout(const AttemptPtr& attempt,
                                const std::map<int, absl::Status>& gone) {
  Calls to_answer;
  std::vector<AttemptPtr> next;
  {
    MutexLock lock(&mutex_);
    NameSpace& name_space = namespaces_[attempt->name_space];
    name_space.attempt = nullptr;
    int place = 0;
    for (auto& [name, announced] : attempt->rounds) {
      const auto found = name_space.keys.find(name);
      Key& key = found->second;
      key.is_under_way = false;
      const auto failed = gone.find(place++);
      absl::Status status = stopped_;
      if (attempt->is_forgotten) status.Update(NameSpaceHasGone());
      if (announced.front().round.version() <= key.removed) {
        status.Update(KeyHasGone());
      }
      if (failed != gone.end()) status.Update(failed->second);
      Reannounce(key, announced, status, to_answer);
      UpdateKey(name_space, name, key, to_answer);
      EraseIfIdle(name_space.keys, found);
    }
    next = TakeNextAfter(*attempt);
  }
  AnswerCalls(to_answer);
  for (const AttemptPtr& each : next) Start(each);
}

void MirrorLeader::RepeatByCalls(const AttemptPtr& attempt,
                                 const absl::Status& why) {
  std::deque<AttemptPtr> queued;
  {
    MutexLock lock(&mutex_);
    TellWhyNotOnDevices(why);
    // Else no device has tried to meet others.
    if (attempt->has_run) meeting_.RecordEnd(/*has_failed=*/true);
    for (const auto& [key, announced] : attempt->rounds) {
      for (const Announced& each : announced) {
        each.call->has_failed_on_devices = true;
      }
    }
    queued.swap(queue_);
    for (const AttemptPtr& each : queued) each->links.clear();
    queued.pop_front();  // this one
  }
  RetryWithout(attempt, {});
  for (const AttemptPtr& each : queued) Start(each);
}

void MirrorLeader::EndAttempt(const AttemptPtr& attempt, absl::Status status) {
  const bool is_on_devices = !attempt->links.empty();
  if (is_on_devices && !status.ok()) return RepeatByCalls(attempt, status);
  Calls to_answer;
  std::vector<AttemptPtr> next;
  {
    MutexLock lock(&mutex_);
    if (is_on_devices) meeting_.RecordEnd(/*has_failed=*/false);
    if (attempt->is_forgotten) status = NameSpaceHasGone();
    namespaces_[attempt->name_space].attempt = nullptr;
    for (const auto& [name, announced] : attempt->rounds) {
      EndRound(*attempt, name, announced, status, to_answer);
    }
    next = TakeNextAfter(*attempt);
  }
  AnswerCalls(to_answer);
  for (const AttemptPtr& each : next) Start(each);
}

void MirrorLeader::EndRound(const Attempt& attempt, const std::string& name,
                            const std::vector<Announced>& announced,
                            const absl::Status& status, Calls& to_answer) {
  NameSpace& name_space = namespaces_[attempt.name_space];
  const auto found = name_space.keys.find(name);
  Key& key = found->second;
  key.is_under_way = false;
  const v1::AnnouncedRound& round = announced.front().round;
  if (status.ok() && round.version() > key.removed) {
    key.last = {attempt.id, round.step(), round.version()};
  }
  for (const Announced& each : announced) {
    SetOutcome(each, status.ok() ? RoundOutcome::SUMMED : RoundOutcome::FAILED,
               to_answer, attempt.id, status);
  }
  // Whoever has given up meanwhile may have come again.
  UpdateKey(name_space, name, key, to_answer);
  EraseIfIdle(name_space.keys, found);
}

}  // namespace tensorkv
