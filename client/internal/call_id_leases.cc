#include "client/internal/call_id_leases.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/random_bytes.h"

namespace tensorkv {
namespace {

// So many that no two clients have them in common.
constexpr size_t kPrefixBytes = 16;

}  // namespace

void CallIdLeases::RenewAfterFork() {
  const pid_t process = getpid();
  if (process == process_) return;
  process_ = process;
  prefix_ = RandomBytes(kPrefixBytes);
  num_sequences_ = 0;
  idle_.clear();
}

CallIdLeases::Lease CallIdLeases::Acquire() {
  std::unique_ptr<IdSequence> sequence;
  {
    MutexLock lock(&mutex_);
    RenewAfterFork();
    if (idle_.empty()) {
      sequence = std::make_unique<IdSequence>();
      sequence->client_id = absl::StrCat(prefix_, absl::Hex(num_sequences_++));
    } else {
      sequence = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  ++sequence->last_sequence;
  return Lease(*this, std::move(sequence));
}

void CallIdLeases::Return(std::unique_ptr<IdSequence> sequence) {
  MutexLock lock(&mutex_);
  idle_.push_back(std::move(sequence));
}

}  // namespace tensorkv
