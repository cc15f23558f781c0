// The calls of membership.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_MEMBERSHIP_REQUESTS_H_
#define TENSORKV_CONTRACT_MEMBERSHIP_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "contract/call_fields.h"

namespace tensorkv {

struct WorkerStatus {
  std::string name;
  Worker worker;
  // True while the worker's lease runs.
  bool live = false;
  // The last step that the worker has contributed to; 0: none.
  Step step = 0;
  absl::Duration lease_remaining;
  // True if the worker has left by a Leave. One that is neither live nor has
  // left was lost.
  bool left = false;
};

struct JoinRequest {
  std::string name_space;
  std::string worker_name;
  absl::Duration lease;
  std::optional<CallId> call_id;
  uint64_t namespace_uid = 0;
  // The epoch that the worker knows to be its own former one, and which ends at
  // once; 0 stands for none.
  uint64_t replaces_epoch = 0;
  // The rank to have; without it the server chooses.
  std::optional<uint32_t> rank;
  // The epoch to have, with that rank; 0: the server gives one.
  uint64_t epoch = 0;
};

struct JoinReply {
  Worker worker;
  uint32_t num_workers = 0;
  absl::Duration lease;
  uint64_t server_incarnation = 0;
  // The step that the worker is to push next.
  Step next_step = 0;
  // True if the worker of that name had been lost, and comes back.
  bool lost_before = false;
};

struct KeepAliveRequest {
  std::string name_space;
  Worker worker;
  uint64_t namespace_uid = 0;
};

struct KeepAliveReply {
  absl::Duration lease_remaining;
  uint32_t num_workers = 0;
  Step next_step = 0;
};

struct LeaveRequest {
  std::string name_space;
  Worker worker;
  std::optional<CallId> call_id;
  // True if the worker fails: its lease ends at once, as if it had been lost.
  bool lost = false;
  // In a mirrored namespace the last step that the worker has contributed to at
  // its own server.
  std::optional<Step> step;
  uint64_t namespace_uid = 0;
};

struct LeaveReply {};

struct BarrierRequest {
  std::string name_space;
  Worker worker;
  std::string barrier;
  std::optional<CallId> call_id;
  uint64_t namespace_uid = 0;
};

struct BarrierReply {};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_MEMBERSHIP_REQUESTS_H_
