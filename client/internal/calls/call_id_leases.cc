#include "client/internal/calls/call_id_leases.h"

#include <unistd.h>

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/retry/random_bytes.h"

namespace tensorkv {
namespace {

// So many that no two clients have them in common.
constexpr size_t kPrefixBytes = 16;

}  // namespace

CallId CallIdLeases::Lease::id() const {
  return {sequences_->client_id, sequence_, answered_below_};
}

void CallIdLeases::RenewAfterFork() {
  const pid_t process = getpid();
  if (process == process_) return;
  process_ = process;
  prefix_ = RandomBytes(kPrefixBytes);
  all_.clear();
}

std::shared_ptr<CallIdLeases::Sequences> CallIdLeases::FindOrAdd() {
  for (const std::shared_ptr<Sequences>& sequences : all_) {
    if (!sequences->is_full()) return sequences;
  }
  return all_.emplace_back(std::make_shared<Sequences>(
      absl::StrCat(prefix_, absl::Hex(all_.size()))));
}

CallIdLeases::Lease CallIdLeases::Acquire() {
  MutexLock lock(&mutex_);
  RenewAfterFork();
  std::shared_ptr<Sequences> sequences = FindOrAdd();
  const uint64_t sequence = sequences->next++;
  const uint64_t lowest = sequences->lowest;
  sequences->is_under_way.set(sequence % kMaxCallsUnderWay);
  return Lease(*this, std::move(sequences), sequence, lowest);
}

void CallIdLeases::Return(Sequences& sequences, uint64_t sequence) {
  MutexLock lock(&mutex_);
  sequences.is_under_way.reset(sequence % kMaxCallsUnderWay);
  while (sequences.lowest < sequences.next &&
         !sequences.is_under_way[sequences.lowest % kMaxCallsUnderWay]) {
    ++sequences.lowest;
  }
}

}  // namespace tensorkv
