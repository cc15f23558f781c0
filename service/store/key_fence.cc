#include "service/store/key_fence.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/placement.h"
#include "contract/reason.h"
#include "service/store/looks.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status IsMoving(absl::string_view key) {
  return WithReason(
      absl::UnavailableError(absl::StrCat("key ", Quoted(key),
                                          " is on its way to another server")),
      Reason::kKeyMoving, {{"key", key}});
}

absl::Status WrongServerError(absl::string_view key) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "key ", Quoted(key), " has moved to another server")),
                    Reason::kWrongServer, {{"key", key}});
}

}  // namespace

KeyFence::View::State KeyFence::View::StateOf(absl::string_view name_space,
                                              absl::string_view key) const {
  CountLook();
  return states_[PartitionOf(name_space, key,
                             static_cast<uint32_t>(states_.size()))];
}

absl::Status KeyFence::View::CheckChange(absl::string_view name_space,
                                         absl::string_view key,
                                         Step step) const {
  switch (StateOf(name_space, key)) {
    case State::kOpen:
      return absl::OkStatus();
    case State::kGone:
      return WrongServerError(key);
    case State::kFenced:
      break;
  }
  if (is_closed_) return IsMoving(key);
  const auto last_step = last_steps_.find(name_space);
  if (last_step == last_steps_.end()) {
    return fences_all_ ? IsMoving(key) : absl::OkStatus();
  }
  return step > 0 && step <= last_step->second ? absl::OkStatus()
                                               : IsMoving(key);
}

absl::Status KeyFence::View::CheckRead(absl::string_view name_space,
                                       absl::string_view key) const {
  switch (StateOf(name_space, key)) {
    case State::kOpen:
      return absl::OkStatus();
    case State::kGone:
      return WrongServerError(key);
    case State::kFenced:
      break;
  }
  return is_closed_ ? IsMoving(key) : absl::OkStatus();
}

std::shared_ptr<const KeyFence::View> KeyFence::view() const {
  MutexLock lock(&mutex_);
  return view_;
}

KeyFence::View KeyFence::Copy() const {
  return view_ == nullptr ? View() : *view_;
}

KeyFence::View KeyFence::CopyWith(const PartitionSet& partitions,
                                  View::State state) const {
  View view = Copy();
  if (view.states_.size() != partitions.num_partitions) {
    view.states_.assign(partitions.num_partitions, View::State::kOpen);
  }
  for (const uint32_t each : partitions.partitions) view.states_[each] = state;
  return view;
}

void KeyFence::SetView(View view) {
  const bool is_open = std::ranges::count(view.states_, View::State::kOpen) ==
                       static_cast<std::ptrdiff_t>(view.states_.size());
  view_ = is_open ? nullptr : std::make_shared<const View>(std::move(view));
}

void KeyFence::Begin(const PartitionSet& partitions) {
  Release();
  MutexLock lock(&mutex_);
  SetView(CopyWith(partitions, View::State::kFenced));
}

void KeyFence::FenceNamespace(const std::string& name_space, Step last_step) {
  MutexLock lock(&mutex_);
  View view = Copy();
  view.last_steps_[name_space] = last_step;
  SetView(std::move(view));
}

void KeyFence::FenceAll() {
  MutexLock lock(&mutex_);
  View view = Copy();
  view.fences_all_ = true;
  SetView(std::move(view));
}

void KeyFence::Close() {
  MutexLock lock(&mutex_);
  View view = Copy();
  view.is_closed_ = true;
  SetView(std::move(view));
}

void KeyFence::End(View::State state) {
  MutexLock lock(&mutex_);
  View view = Copy();
  std::ranges::replace(view.states_, View::State::kFenced, state);
  view.is_closed_ = false;
  view.fences_all_ = false;
  view.last_steps_.clear();
  SetView(std::move(view));
}

void KeyFence::Shut(const PartitionSet& partitions) {
  MutexLock lock(&mutex_);
  SetView(CopyWith(partitions, View::State::kGone));
}

void KeyFence::Open(const PartitionSet& partitions) {
  MutexLock lock(&mutex_);
  if (view_ == nullptr) return;
  View view = Copy();
  bool has_changed = false;
  for (const uint32_t each : partitions.partitions) {
    if (each >= view.states_.size()) continue;
    View::State& state = view.states_[each];
    if (state != View::State::kGone) continue;
    state = View::State::kOpen;
    has_changed = true;
  }
  // Calls that wait look at each new view.
  if (has_changed) SetView(std::move(view));
}

}  // namespace tensorkv
