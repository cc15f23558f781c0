// A rank of a group, and who has it or had it last.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_GROUP_MEMBER_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_GROUP_MEMBER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "contract/call_fields.h"

namespace tensorkv {

// Returns the step that follows; the largest follows itself.
inline Step After(Step step) { return step == UINT64_MAX ? step : step + 1; }

// What a WorkerGroup keeps of the worker that has, or had last, one rank.
struct GroupMember {
  // kRestored: live, or lost, when the group was saved; or it had left, and a
  // restore has lost what it had contributed, so that it is awaited again. It
  // has no lease; if the group is to go on without it, it is kLost.
  enum class State : uint8_t { kVacant, kLive, kLeft, kLost, kRestored };

  // Makes the worker of that name live.
  void Join(absl::string_view its_name, uint64_t its_epoch,
            absl::Duration its_lease, absl::Duration now) {
    state = State::kLive;
    name = std::string(its_name);
    epoch = its_epoch;
    lease = its_lease;
    lease_end = now + its_lease;
    says_it_is_lost = false;
    last_step = UINT64_MAX;
  }

  State state = State::kVacant;
  std::string name;
  uint64_t epoch = 0;
  // The epoch with which the steps of the rank began: those of former workers
  // are below it.
  uint64_t first_epoch = 0;
  absl::Duration lease;
  absl::Duration lease_end;
  // The worker has said itself that it is lost.
  bool says_it_is_lost = false;
  // The worker of this name has contributed since it joined, or came back.
  bool has_contributed = false;
  // The worker has said what it has contributed to at another server.
  bool has_told_step = false;
  // Orders joins and leaves of all members: higher is later. A worker that was
  // lost and comes back keeps its number.
  uint64_t order = 0;
  // Steps below do without this worker.
  Step first_step = 0;
  // Steps above count without this worker.
  Step last_step = UINT64_MAX;
};

// Holds what a WorkerGroup tells of a worker that has joined, and whose rank
// nobody else has taken since. membership.proto explains the fields at
// WorkerStatus.
struct MemberStatus {
  std::string name;
  Worker worker;
  bool live = false;
  Step step = 0;
  absl::Duration lease_remaining;
  bool left = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_GROUP_MEMBER_H_
