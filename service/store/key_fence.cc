#include "service/store/key_fence.h"

#include <algorithm>
#include <iterator>
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

OwnedPartitions::OwnedPartitions(const PartitionSet& partitions)
    : digest_(DigestOf(partitions.partitions)),
      placement_version_(partitions.placement_version),
      is_owned_(partitions.num_partitions) {
  for (const uint32_t each : partitions.partitions) is_owned_[each] = true;
}

bool OwnedPartitions::Has(absl::string_view name_space,
                          absl::string_view key) const {
  CountLook();
  return is_owned_[PartitionOf(name_space, key,
                               static_cast<uint32_t>(is_owned_.size()))];
}

KeyFence::View::State KeyFence::View::StateOf(absl::string_view name_space,
                                              absl::string_view key) const {
  CountLook();
  return states_[PartitionOf(name_space, key,
                             static_cast<uint32_t>(states_.size()))];
}

absl::Status KeyFence::View::CheckChange(absl::string_view name_space,
                                         absl::string_view key,
                                         Step step) const {
  const State state = StateOf(name_space, key);
  if (state == State::kOpen) return absl::OkStatus();
  if (state == State::kGone) return WrongServerError(key);
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
  const State state = StateOf(name_space, key);
  if (state == State::kGone) return WrongServerError(key);
  return state == State::kFenced && is_closed_ ? IsMoving(key)
                                               : absl::OkStatus();
}

void KeyFence::View::Set(const PartitionSet& partitions, State state) {
  if (states_.size() != partitions.num_partitions) {
    states_.assign(partitions.num_partitions, State::kOpen);
  }
  for (const uint32_t each : partitions.partitions) states_[each] = state;
}

std::shared_ptr<const KeyFence::View> KeyFence::ViewOf(
    const PartitionSet& partitions) {
  View view;
  view.Set(partitions, View::State::kFenced);
  return std::make_shared<const View>(std::move(view));
}

std::shared_ptr<const KeyFence::View> KeyFence::view() const {
  MutexLock lock(&mutex_);
  return view_;
}

void KeyFence::Change(absl::FunctionRef<void(View& view)> change) {
  MutexLock lock(&mutex_);
  View view = view_ == nullptr ? View() : *view_;
  change(view);
  Replace(std::move(view));
}

void KeyFence::Replace(View view) {
  const bool is_open = std::ranges::count(view.states_, View::State::kOpen) ==
                       static_cast<std::ptrdiff_t>(view.states_.size());
  view_ = is_open ? nullptr : std::make_shared<const View>(std::move(view));
}

void KeyFence::BeginMove(const PartitionSet& partitions) {
  Unfence();
  Change([&](View& view) { view.Set(partitions, View::State::kFenced); });
}

void KeyFence::FenceNamespace(const std::string& name_space, Step last_step) {
  Change([&](View& view) { view.last_steps_[name_space] = last_step; });
}

void KeyFence::End(View::State state) {
  Change([&](View& view) {
    std::ranges::replace(view.states_, View::State::kFenced, state);
    view.is_closed_ = false;
    view.fences_all_ = false;
    view.last_steps_.clear();
  });
}

void KeyFence::MarkGone(const PartitionSet& partitions) {
  Change([&](View& view) { view.Set(partitions, View::State::kGone); });
}

PartitionSet KeyFence::Own(const PartitionSet& partitions) {
  auto owned = std::make_shared<const OwnedPartitions>(partitions);
  PartitionSet opened = {.num_partitions = partitions.num_partitions};
  MutexLock lock(&mutex_);
  owned_ = std::move(owned);
  const auto is_gone = [&](uint32_t partition) {
    return view_ != nullptr && partition < view_->states_.size() &&
           view_->states_[partition] == View::State::kGone;
  };
  std::ranges::copy_if(partitions.partitions,
                       std::back_inserter(opened.partitions), is_gone);
  // Calls that wait look at each new view.
  if (opened.partitions.empty()) return opened;
  View view = *view_;
  view.Set(opened, View::State::kOpen);
  Replace(std::move(view));
  return opened;
}

std::shared_ptr<const OwnedPartitions> KeyFence::owned() const {
  MutexLock lock(&mutex_);
  return owned_;
}

}  // namespace tensorkv
