// Keeps a worker's lease alive.

#ifndef TENSORKV_CLIENT_INTERNAL_LEASE_RENEWAL_H_
#define TENSORKV_CLIENT_INTERNAL_LEASE_RENEWAL_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/client.h"

namespace tensorkv {

// When to renew a lease, counted from the start of the renewal before.
struct RenewalSchedule {
  explicit RenewalSchedule(absl::Duration lease);

  absl::Duration call_timeout;
  // A third of the lease after one that succeeded.
  absl::Duration after_success;
  // At once after one that has taken all its time, so that within a lease a
  // renewal is tried four times before the worker counts as lost.
  absl::Duration after_failure;
};

// Renews the lease of whatever worker a client is, from a thread of its own,
// for as long as this lives. Thread-safe.
class LeaseRenewal {
 public:
  // `client`, a worker, outlives it. `on_lost`, where set, is told by the
  // thread each time that the server says that the worker is a member no more,
  // but not when the client has left by itself. It must not destroy this.
  LeaseRenewal(Client& client, absl::Duration lease,
               std::function<void(const absl::Status&)> on_lost = nullptr);
  // Ends within the timeout of a call, and waits for `on_lost` where it runs.
  ~LeaseRenewal();

  // Returns the server's answer to the latest renewal that it answered: OK, or
  // why the worker is a member no more. A renewal without an answer says
  // nothing.
  absl::Status membership() const;

  // The client has joined again.
  void SetMember();

 private:
  void Run();
  // Returns whether the lease was renewed.
  bool Renew();
  // Takes in what the server has said of that epoch. Whether the worker is a
  // member no more, as was not known before.
  bool TakeIn(const absl::Status& status, uint64_t epoch);
  bool EndsWithin(absl::Duration pause);

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

#endif  // TENSORKV_CLIENT_INTERNAL_LEASE_RENEWAL_H_
