// Bounds how long announced rounds wait for the leader's answer.

#include <algorithm>
#include <vector>

#include "service/mirror/mirror_leader.h"

namespace tensorkv {

using v1::RoundOutcome;

void MirrorLeader::SchedulePatienceAlarm(const CallPtr& call) {
  call->patience_alarm = alarms_.Schedule(
      alarms_.Now() + times_.patience,
      [self = shared_from_this(), call] { self->OnPatience(call); });
}

void MirrorLeader::OnPatience(const CallPtr& call) {
  std::vector<bool> is_missing(group_.size());
  auto ping = group_.NewRequest<v1::PingRequest>();
  ping.set_namespace_(call->name_space);
  {
    MutexLock lock(&mutex_);
    call->patience_alarm = 0;
    const auto name_space = namespaces_.find(call->name_space);
    if (name_space == namespaces_.end()) return;
    for (const auto& [name, key] : name_space->second.keys) {
      if (key.announced[call->from].call != call) continue;
      ping.add_keys(name);
      for (uint32_t i = 0; i < group_.size(); ++i) {
        if (key.announced[i].call == nullptr) is_missing[i] = true;
      }
    }
  }
  AskMembers(group_, ping, times_.patience, is_missing, WaitFor::kAll,
             [self = shared_from_this(), call, ping](const auto& replies) {
               self->OnPings(call, ping, replies);
             });
}

void MirrorLeader::OnPings(const CallPtr& call, const v1::PingRequest& ping,
                           const MirrorReplies<v1::PingRequest>& replies) {
  Calls to_answer;
  {
    MutexLock lock(&mutex_);
    const auto name_space = namespaces_.find(call->name_space);
    if (name_space == namespaces_.end()) return;
    Keys& keys = name_space->second.keys;
    for (const auto& reply : replies) {
      if (!reply.ok() || reply->counted_size() != ping.keys_size()) continue;
      for (int i = 0; i < ping.keys_size(); ++i) {
        const auto key = keys.find(ping.keys(i));
        if (key == keys.end()) continue;
        LearnCounted(key->second, reply->counted(i));
        UpdateKey(name_space->second, key->first, key->second, to_answer);
      }
    }
    EndWaiting(name_space->second, call, replies, to_answer);
  }
  AnswerCalls(to_answer);
}

void MirrorLeader::EndWaiting(NameSpace& name_space, const CallPtr& call,
                              const MirrorReplies<v1::PingRequest>& pings,
                              Calls& to_answer) {
  Keys& keys = name_space.keys;
  for (auto next = keys.begin(); next != keys.end();) {
    const auto found = next++;
    Key& key = found->second;
    Announced& own = key.announced[call->from];
    if (own.call != call) continue;
    absl::Status gone;
    for (uint32_t i = 0; i < group_.size() && gone.ok(); ++i) {
      if (key.announced[i].call == nullptr) gone = pings[i].status();
    }
    SetOutcome(own, gone.ok() ? RoundOutcome::WAITING : RoundOutcome::FAILED,
               to_answer, 0, gone);
    own = {};
    EraseIfIdle(keys, found);
  }
}

void MirrorLeader::SchedulePartialAnswer(const CallPtr& call) {
  call->partial_alarm = alarms_.Schedule(
      alarms_.Now() + call->partial_delay,
      [self = shared_from_this(), call] { self->OnPartialDelay(call); });
}

// The own member applies sums where it is answered, and alarms must not wait.
void MirrorLeader::OnPartialDelay(const CallPtr& call) {
  MutexLock lock(&mutex_);
  // Else nothing waits, and the executor may go.
  if (!stopped_.ok() || call->num_open == 0) return;
  executor_.Submit(
      [self = shared_from_this(), call] { self->AnswerPartially(call); });
}

bool MirrorLeader::IsBeingSummed(const NameSpace& name_space,
                                 const CallPtr& call) {
  const auto is_of_call = [&](const std::vector<Announced>& announced) {
    return announced[call->from].call == call;
  };
  if (name_space.attempt != nullptr) {
    for (const auto& [name, announced] : name_space.attempt->rounds) {
      if (is_of_call(announced)) return true;
    }
  }
  return std::any_of(
      name_space.keys.begin(), name_space.keys.end(), [&](const auto& key) {
        return is_of_call(key.second.announced) && IsReady(key.second);
      });
}

void MirrorLeader::AnswerPartially(const CallPtr& call) {
  Calls to_answer;
  {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(call->name_space);
    if (found == namespaces_.end() || call->num_open == 0) return;
    if (IsBeingSummed(found->second, call)) return SchedulePartialAnswer(call);
    const MirrorReplies<v1::PingRequest> nobody_is_asked(group_.size(),
                                                         v1::PingResponse());
    EndWaiting(found->second, call, nobody_is_asked, to_answer);
  }
  AnswerCalls(to_answer);
}

}  // namespace tensorkv
