#include "service/server/read_turn.h"

#include <algorithm>

namespace tensorkv {

bool ReadTurn::Count(size_t bytes, uint32_t work) {
  if (work > kWork) {
    max_bytes_ = std::max(kMinBytes, bytes * kWork / work);
  } else if (work <= kWork / 2 && bytes >= max_bytes_ / 2) {
    max_bytes_ = std::min(kMaxBytes, 2 * max_bytes_);
  }
  const bool is_over = work >= work_left_;
  work_left_ = is_over ? kWork : work_left_ - work;
  return is_over;
}

}  // namespace tensorkv
