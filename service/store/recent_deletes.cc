#include "service/store/recent_deletes.h"

#include <algorithm>

namespace tensorkv {

void RecentDeletes::Add(absl::string_view name, absl::Duration now) {
  times_[std::string(name)] = now;
  if (times_.size() <= kMaxNames) return;
  const auto oldest = std::min_element(
      times_.begin(), times_.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  last_forgotten_ = std::max(last_forgotten_, oldest->second);
  times_.erase(oldest);
}

bool RecentDeletes::MayBeDeletedSince(absl::string_view name,
                                      absl::Duration since) const {
  if (last_forgotten_ >= since) return true;
  const auto found = times_.find(std::string(name));
  return found != times_.end() && found->second >= since;
}

}  // namespace tensorkv
