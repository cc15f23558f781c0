#include "client/internal/calls/call_queue.h"

#include "base/scoped_blocking_call.h"
#include "client/internal/calls/wait_queue.h"

namespace tensorkv {

CallQueue::~CallQueue() {
  // A forked process has the calls of its parent, which end there.
  if (!CheckNotForked().ok()) return;
  const ScopedBlockingCall waits(ScopedBlockingCall::IfLast::kWait);
  MutexLock lock(&mutex_);
  while (num_in_flight_ > 0 || is_starting_) has_headroom_.Wait(&mutex_);
}

void CallQueue::Add(Call call) {
  const Ticket ticket = AwaitTurn(call);
  MutexLock lock(&mutex_);
  ++next_admitted_;
  has_headroom_.SignalAll();
  ++num_in_flight_;
  bytes_in_flight_ += call.bytes;
  const bool may_run = order_.Add(ticket, std::move(call.keys));
  waiting_.emplace(ticket, std::move(call));
  if (may_run) MakeReady(ticket);
  StartReady();
}

CallQueue::Ticket CallQueue::AwaitTurn(const Call& call) {
  Ticket ticket = 0;
  {
    MutexLock lock(&mutex_);
    ticket = next_ticket_++;
    if (HasTurn(ticket, call)) return ticket;
  }
  const ScopedBlockingCall waits(ScopedBlockingCall::IfLast::kWait);
  MutexLock lock(&mutex_);
  while (!HasTurn(ticket, call)) has_headroom_.Wait(&mutex_);
  return ticket;
}

bool CallQueue::HasTurn(Ticket ticket, const Call& call) const {
  return ticket == next_admitted_ && HasHeadroomFor(call);
}

bool CallQueue::HasHeadroomFor(const Call& call) const {
  if (num_in_flight_ == 0) return true;
  return num_in_flight_ < limits_.max_in_flight &&
         bytes_in_flight_ + call.bytes <= limits_.max_bytes;
}

void CallQueue::MakeReady(Ticket ticket) {
  ready_.emplace(-int64_t{waiting_.at(ticket).priority}, ticket);
}

void CallQueue::StartReady() {
  if (is_starting_) return;
  is_starting_ = true;
  while (!ready_.empty() && num_running_ < limits_.max_running) {
    const Ticket ticket = ready_.extract(ready_.begin()).value().second;
    Call call = std::move(waiting_.extract(ticket).mapped());
    ++num_running_;
    mutex_.unlock();
    std::move(call.start)(ticket);
    mutex_.lock();
  }
  is_starting_ = false;
  // The destructor may wait for that.
  if (num_in_flight_ == 0) has_headroom_.SignalAll();
}

void CallQueue::OnEnded(Ticket ticket, uint64_t bytes) {
  MutexLock lock(&mutex_);
  --num_running_;
  --num_in_flight_;
  bytes_in_flight_ -= bytes;
  for (const Ticket next : order_.Remove(ticket)) MakeReady(next);
  has_headroom_.SignalAll();
  StartReady();
}

}  // namespace tensorkv
