#include "service/store/pull_waits.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tensorkv {

void PullWaits::Park(absl::string_view key, std::shared_ptr<PullCall> call) {
  by_key_[key].push_back(std::move(call));
  ++num_parked_;
}

std::vector<std::shared_ptr<PullCall>> PullWaits::Take(absl::string_view key) {
  if (num_parked_ == 0) return {};
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return {};
  Calls calls = std::move(it->second);
  by_key_.erase(it);
  num_parked_ -= calls.size();
  return calls;
}

std::vector<std::shared_ptr<PullCall>> PullWaits::TakeAll() {
  Calls all;
  for (auto& [key, calls] : by_key_) {
    std::move(calls.begin(), calls.end(), std::back_inserter(all));
  }
  by_key_.clear();
  num_parked_ = 0;
  return all;
}

void PullWaits::Remove(absl::string_view key,
                       const std::shared_ptr<PullCall>& call) {
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return;
  Calls& calls = it->second;
  const auto position = std::find(calls.begin(), calls.end(), call);
  if (position == calls.end()) return;
  std::swap(*position, calls.back());
  calls.pop_back();
  --num_parked_;
  if (calls.empty()) by_key_.erase(it);
}

}  // namespace tensorkv
