#include "client/send_cast.h"

#include <algorithm>
#include <iterator>

namespace tensorkv {

void CastRanges::Add(size_t first, size_t end) {
  MutexLock lock(&mutex_);
  auto next = ranges_.upper_bound(end);
  while (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->second < first) break;
    first = std::min(first, before->first);
    end = std::max(end, before->second);
    next = ranges_.erase(before);
  }
  ranges_.emplace_hint(next, first, end);
}

bool CastRanges::Cover(size_t size) const {
  MutexLock lock(&mutex_);
  const auto first = ranges_.find(0);
  return size == 0 || (first != ranges_.end() && first->second >= size);
}

}  // namespace tensorkv
