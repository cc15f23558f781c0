// Why a worker leaves its group.

#ifndef TENSORKV_CLIENT_LEAVE_CAUSE_H_
#define TENSORKV_CLIENT_LEAVE_CAUSE_H_

#include <cstdint>

namespace tensorkv {

enum class LeaveCause : uint8_t {
  // The worker has done its work, and makes no more steps.
  kDone,
  // The worker fails: its lease ends at once, as if it had been lost.
  kLost,
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_LEAVE_CAUSE_H_
