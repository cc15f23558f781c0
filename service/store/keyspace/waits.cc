#include "service/store/keyspace/waits.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "contract/reason.h"
#include "service/store/looks.h"

namespace tensorkv {

void KeyWatches::Add(Watch* watch) {
  Watch*& first = first_[watch->key];
  watch->next = first;
  if (first != nullptr) first->previous = watch;
  first = watch;
}

void KeyWatches::Remove(Watch* watch) {
  if (watch->next != nullptr) watch->next->previous = watch->previous;
  if (watch->previous != nullptr) {
    watch->previous->next = watch->next;
  } else if (watch->next != nullptr) {
    first_[watch->key] = watch->next;
  } else {
    first_.erase(watch->key);
  }
  watch->key = nullptr;
}

void KeyWatches::Move(const StoredKey* from, const StoredKey* to) {
  auto moved = first_.extract(from);
  if (moved.empty()) return;
  for (Watch* watch = moved.mapped(); watch != nullptr; watch = watch->next) {
    watch->key = to;
  }
  first_[to] = moved.mapped();
}

KeyWatches::Watch* KeyWatches::Find(const StoredKey* key) const {
  const auto it = first_.find(key);
  return it == first_.end() ? nullptr : it->second;
}

absl::Status WithMessage(const absl::Status& status, absl::string_view text) {
  absl::Status with_text(status.code(), text);
  if (auto reason = status.GetPayload(kErrorInfoTypeUrl)) {
    with_text.SetPayload(kErrorInfoTypeUrl, *std::move(reason));
  }
  return with_text;
}

std::array<WaitStatus, kNumWaitReasons> Waits::NoWaits() {
  std::array<WaitStatus, kNumWaitReasons> statuses;
  for (size_t i = 0; i < kNumWaitReasons; ++i) {
    statuses[i].reason = static_cast<WaitReason>(i);
  }
  return statuses;
}

void Waits::Park(WaitingCallPtr call) {
  ++num_parked_;
  ++NumWaiting(*call);
  Calls& calls = by_topic_[call->topic];
  call->position = calls.size();
  calls.push_back(std::move(call));
}

void Waits::CountTaken(const Calls& calls) {
  num_parked_ -= calls.size();
  for (const WaitingCallPtr& call : calls) --NumWaiting(*call);
}

Waits::Calls Waits::Take(absl::string_view topic) {
  if (num_parked_ == 0) return {};
  const auto it = by_topic_.find(topic);
  if (it == by_topic_.end()) return {};
  Calls calls = std::move(it->second);
  by_topic_.erase(it);
  CountTaken(calls);
  return calls;
}

Waits::Calls Waits::TakeAll() {
  Calls all;
  for (auto& [topic, calls] : by_topic_) {
    std::move(calls.begin(), calls.end(), std::back_inserter(all));
  }
  by_topic_.clear();
  CountTaken(all);
  return all;
}

void Waits::Remove(const WaitingCallPtr& call) {
  const auto it = by_topic_.find(call->topic);
  if (it == by_topic_.end()) return;
  Calls& calls = it->second;
  const size_t position = call->position;
  if (position >= calls.size() || calls[position] != call) return;
  calls.back()->position = position;
  calls[position] = std::move(calls.back());
  calls.pop_back();
  --num_parked_;
  --NumWaiting(*call);
  if (calls.empty()) by_topic_.erase(it);
}

const Waits::Calls& Waits::At(absl::string_view topic) const {
  static const Calls* const kNone = new Calls();
  const auto it = by_topic_.find(topic);
  return it == by_topic_.end() ? *kNone : it->second;
}

void Waits::ForEach(
    absl::FunctionRef<void(const WaitingCallPtr&)> visit) const {
  for (const auto& [topic, calls] : by_topic_) {
    for (const WaitingCallPtr& call : calls) {
      CountLook();
      visit(call);
    }
  }
}

void Waits::CountEnd(const WaitingCall& call, absl::Duration now) {
  WaitStatus& status = statuses_[static_cast<size_t>(call.reason)];
  ++status.calls_ended;
  status.waited += now - call.started;
}

}  // namespace tensorkv
