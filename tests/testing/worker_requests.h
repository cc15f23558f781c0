// Makes the requests by which workers join and leave.

#ifndef TENSORKV_TESTS_TESTING_WORKER_REQUESTS_H_
#define TENSORKV_TESTS_TESTING_WORKER_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "contract/duration.h"
#include "contract/requests.h"

namespace tensorkv::testing {

// Without a rank, the server chooses one.
inline JoinRequest JoinOf(const std::string& name_space,
                          const std::string& worker_name, absl::Duration lease,
                          std::optional<uint32_t> rank = std::nullopt) {
  JoinRequest request;
  request.set_namespace_(name_space);
  request.set_worker_name(worker_name);
  EncodeDuration(lease, request.mutable_lease());
  if (rank) request.set_rank(*rank);
  return request;
}

// Returns a Join as the home of a namespace has decided it, for the other
// servers of a cluster.
inline JoinRequest ToldJoinOf(const std::string& name_space,
                              const std::string& worker_name,
                              const Worker& worker) {
  JoinRequest request =
      JoinOf(name_space, worker_name, absl::Minutes(5), worker.rank);
  request.set_epoch(worker.epoch);
  return request;
}

// Returns a KeepAliveRequest, LeaveRequest or BarrierRequest of a member.
template <typename Request>
Request RequestOfMember(const std::string& name_space, const Worker& worker) {
  Request request;
  request.set_namespace_(name_space);
  SetWorker(worker, request.mutable_worker());
  return request;
}

// Returns the Leave of a worker that fails.
inline LeaveRequest FailureOf(const std::string& name_space,
                              const Worker& worker) {
  auto request = RequestOfMember<LeaveRequest>(name_space, worker);
  request.set_lost(true);
  return request;
}

inline BarrierRequest BarrierOf(const std::string& name_space,
                                const Worker& worker,
                                const std::string& barrier) {
  auto request = RequestOfMember<BarrierRequest>(name_space, worker);
  request.set_barrier(barrier);
  return request;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_WORKER_REQUESTS_H_
