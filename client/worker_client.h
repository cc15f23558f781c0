// A client that is a member of its namespace.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<WorkerClient> worker,
//                    WorkerClient::Join({.name_space = "train"},
//                                       {.name = "worker-3"}));
//   RETURN_IF_ERROR(worker->client().PushPull("w", gradient).status());

#ifndef TENSORKV_CLIENT_WORKER_CLIENT_H_
#define TENSORKV_CLIENT_WORKER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/client.h"

namespace tensorkv {

struct WorkerOptions {
  // Unique among the namespace's workers, and the same when the worker comes
  // back.
  std::string name;

  // How long the server waits for a sign of life before it counts the worker
  // as lost.
  absl::Duration lease = absl::Seconds(10);

  // How long to wait for a live worker of that name to lose its lease: a worker
  // that was killed and starts again comes before its former self is noticed to
  // be gone. Zero gives up at once, with AlreadyExists.
  absl::Duration takeover_timeout;
};

// Joins when it is made, renews the lease from a thread of its own, leaves when
// it goes. Thread-safe.
//
// Connections that break are made anew, and calls that they lost are repeated,
// as for any client: the membership outlives that as long as the lease. Once it
// is lost (the lease ran out, another worker took the name, or the server was
// restarted), calls end with FailedPrecondition that says so; they never act
// for the worker who has the rank now.
class WorkerClient {
 public:
  // Errors: those of Client::Connect and Client::Join.
  static absl::StatusOr<std::unique_ptr<WorkerClient>> Join(
      const ClientOptions& client_options, const WorkerOptions& options);
  // The same with a client that is no worker yet.
  static absl::StatusOr<std::unique_ptr<WorkerClient>> Join(
      std::unique_ptr<Client> client, const WorkerOptions& options);

  // Leaves, if it can do so within a few seconds.
  ~WorkerClient();

  // Signs pushes and pulls as this worker, and counts its steps.
  Client& client() { return *client_; }
  // 0 if client() has left by itself.
  uint32_t rank() const;
  uint64_t epoch() const;
  Step step() const { return client_->step(); }

  // How the latest renewal of the lease went.
  absl::Status membership() const;

  // Becomes a member again, with a new epoch. The steps go on after the last
  // that the former epoch has contributed to.
  // Errors: those of Client::Join.
  absl::Status Rejoin();

  // Sets step() to what the server counts, and returns it. After Aborted that
  // is the step before the first round that has failed: the worker goes on from
  // there.
  // Errors: those of Client::KeepAlive.
  absl::StatusOr<Step> SyncStep();

  // Returns when all workers of the group have come to `barrier`.
  absl::Status Barrier(absl::string_view barrier);

 private:
  WorkerClient(std::unique_ptr<Client> client, const WorkerOptions& options);

  Worker self() const;
  absl::Duration CallTimeout() const;
  void KeepAlive();
  void RenewLease();

  const WorkerOptions options_;
  const std::unique_ptr<Client> client_;

  mutable Mutex mutex_;
  CondVar ending_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status membership_ ABSL_GUARDED_BY(mutex_);
  std::thread keep_alive_;  // last: starts when everything else is there
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_WORKER_CLIENT_H_
