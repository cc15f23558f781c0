// Keeps a worker's lease alive.

#ifndef TENSORKV_CLIENT_INTERNAL_WORKER_LEASE_RENEWAL_H_
#define TENSORKV_CLIENT_INTERNAL_WORKER_LEASE_RENEWAL_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/client.h"

namespace tensorkv {

// Says when to renew a lease, counted from the start of the renewal before.
struct RenewalSchedule {
  explicit RenewalSchedule(absl::Duration lease);

  absl::Duration call_timeout;
  // After a renewal that has succeeded: a third of the lease.
  absl::Duration after_success;
  // After a renewal that has failed: as long as a call may take, so that within
  // a lease a renewal is tried four times before the worker counts as lost.
  absl::Duration after_failure;
};

// Renews the lease of whatever worker a client is, from a thread of its own,
// for as long as this lives. Thread-safe.
class LeaseRenewal {
 public:
  // `client`, a worker, outlives it. The thread calls `on_lost`, where set,
  // each time that the server says that the worker is a member no more, but not
  // when the client has left by itself. `on_lost` must not destroy this object.
  LeaseRenewal(Client& client, absl::Duration lease,
               std::function<void(const absl::Status&)> on_lost = nullptr);
  // Ends within the timeout of a call, and waits for `on_lost` where it runs.
  ~LeaseRenewal();

  // Returns the server's answer to the latest renewal that it answered: OK, or
  // why the worker is a member no more. A renewal without an answer says
  // nothing.
  absl::Status membership() const;

  // Makes membership() OK, since the client has joined again.
  void SetMember();

 private:
  void Run();
  // Returns whether the lease was renewed.
  bool Renew();
  // Takes in what a renewal of that epoch has come to. Returns whether the
  // worker was lost, which was not known before.
  bool OnAnswer(const absl::Status& status, uint64_t epoch);
  // Waits for so long, or until the destructor runs. Returns whether it runs.
  bool WaitForEnd(absl::Duration pause);

  Client& client_;
  const RenewalSchedule schedule_;
  const std::function<void(const absl::Status&)> on_lost_;

  mutable Mutex mutex_;
  CondVar ending_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status membership_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_WORKER_LEASE_RENEWAL_H_
