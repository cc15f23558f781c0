#include "client/call_lanes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/call_ids.h"

namespace tensorkv {

CallLanes::CallLanes() : prefix_(RandomClientId()) {}

CallLanes::Place CallLanes::Begin() {
  std::unique_ptr<Lane> lane;
  {
    MutexLock lock(&mutex_);
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
