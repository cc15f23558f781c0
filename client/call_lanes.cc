#include "client/call_lanes.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/call_ids.h"

namespace tensorkv {

void CallLanes::BeginAnewAfterFork() {
  const pid_t process = getpid();
  if (process == process_) return;
  process_ = process;
  prefix_ = RandomClientId();
  num_lanes_ = 0;
  idle_.clear();
}

CallLanes::Place CallLanes::Begin() {
  std::unique_ptr<Lane> lane;
  {
    MutexLock lock(&mutex_);
    BeginAnewAfterFork();
    if (idle_.empty()) {
      lane = std::make_unique<Lane>();
      lane->client_id = absl::StrCat(prefix_, absl::Hex(num_lanes_++));
    } else {
      lane = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  ++lane->last_sequence;
  return Place(*this, std::move(lane));
}

void CallLanes::Return(std::unique_ptr<Lane> lane) {
  MutexLock lock(&mutex_);
  idle_.push_back(std::move(lane));
}

}  // namespace tensorkv
