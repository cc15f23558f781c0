#include "client/internal/call_lanes.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/random_bytes.h"

namespace tensorkv {
namespace {

// So many that no two clients have them in common.
constexpr size_t kPrefixBytes = 16;

}  // namespace

void CallLanes::BeginAnewAfterFork() {
  const pid_t process = getpid();
  if (process == process_) return;
  process_ = process;
  prefix_ = RandomBytes(kPrefixBytes);
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
