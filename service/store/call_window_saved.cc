// What a checkpoint saves of a window of calls, and how it is restored.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "service/store/call_window.h"

namespace tensorkv {
namespace {

// Says how many calls Save copies at a time: about 0.1 ms.
constexpr size_t kCallsPerLock = 512;

}  // namespace

// A client that comes meanwhile may be passed over: it was not there
// throughout.
std::vector<ClientSnapshot> CallWindow::Save(
    absl::FunctionRef<void(absl::Duration)> paused) const {
  std::vector<ClientSnapshot> clients;
  ClientKey last;  // comes before any
  bool has_more = true;
  while (has_more) {
    std::vector<ClientSnapshot> some;
    some.reserve(kCallsPerLock);
    absl::Duration pause;
    {
      MutexLock lock(&mutex_);
      const absl::Duration start = alarms_.Now();
      auto next = clients_.upper_bound(last);
      for (size_t num_calls = 0;
           num_calls < kCallsPerLock && next != clients_.end(); ++next) {
        some.push_back(SnapshotOf(*next->second));
        num_calls += 1 + some.back().calls.size();
        last = next->first;
      }
      has_more = next != clients_.end();
      pause = alarms_.Now() - start;
    }
    paused(pause);
    std::move(some.begin(), some.end(), std::back_inserter(clients));
  }
  return clients;
}

ClientSnapshot CallWindow::SnapshotOf(const Client& client) {
  ClientSnapshot snapshot = {.caller = client.key.first,
                             .client_id = client.key.second,
                             .answered_below = client.answered_below};
  for (auto call = client.calls.lower_bound(client.answered_below);
       call != client.calls.end(); ++call) {
    const Call& its = call->second;
    snapshot.calls.push_back(
        {its.sequence, its.fingerprint, its.answer, its.is_push});
  }
  for (uint64_t i = 0; client.marks.any() && i < kMaxCallsUnderWay; ++i) {
    const uint64_t sequence = client.answered_below + i;
    if (client.marks[sequence % kMaxCallsUnderWay]) {
      snapshot.calls.push_back({.sequence = sequence});
    }
  }
  return snapshot;
}

absl::Status CallWindow::Restore(const std::vector<ClientSnapshot>& clients) {
  for (const ClientSnapshot& saved : clients) {
    Dropped dropped;  // goes after the lock
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(Client * client,
                     FindOrAddClient({saved.caller, saved.client_id}));
    client->has_made_calls = true;
    ForgetAnswered(*client, saved.answered_below, dropped);
    for (const CallSnapshot& call : saved.calls) {
      RestoreCall(call, *client, dropped);
    }
  }
  return absl::OkStatus();
}

void CallWindow::RestoreCall(const CallSnapshot& saved, Client& client,
                             Dropped& dropped) {
  if (saved.sequence < client.answered_below ||
      saved.sequence - client.answered_below >= kMaxCallsUnderWay ||
      client.calls.contains(saved.sequence)) {
    return;
  }
  const uint64_t mark = saved.sequence % kMaxCallsUnderWay;
  client.marks.set(mark);
  if (saved.answer == nullptr) return;
  absl::StatusOr<Reservation> reservation = Reservation::Create(
      account_, SumOfBytes(kCallOverheadBytes, SizeOf(*saved.answer)));
  if (!reservation.ok()) return;
  client.marks.reset(mark);
  Call& call = client.calls[saved.sequence];
  call.client = &client;
  call.sequence = saved.sequence;
  call.fingerprint = saved.fingerprint;
  call.answer = saved.answer;
  call.reservation = *std::move(reservation);
  Retire(call, dropped);
}

}  // namespace tensorkv
