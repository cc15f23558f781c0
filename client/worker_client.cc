#include "client/worker_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status_macros.h"
#include "client/steady_now.h"

namespace tensorkv {
namespace {

// So that one renewal may be lost, and the next one still is in time.
constexpr int kRenewalsPerLease = 3;

// However long the lease is, nobody waits longer for one call about it.
constexpr absl::Duration kLongestCall = absl::Seconds(5);

absl::Duration RenewalInterval(absl::Duration lease) {
  return lease / kRenewalsPerLease;
}

// How often to look whether a former self is gone.
constexpr int kAttemptsPerLease = 10;

absl::Status JoinAs(Client& client, const WorkerOptions& options) {
  const absl::Duration end = SteadyNow() + options.takeover_timeout;
  for (;;) {
    const absl::Status status =
        client.Join(options.name, options.lease).status();
    if (!absl::IsAlreadyExists(status) || SteadyNow() >= end) return status;
    std::this_thread::sleep_for(
        absl::ToChronoNanoseconds(options.lease / kAttemptsPerLease));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerClient>> WorkerClient::Join(
    const ClientOptions& client_options, const WorkerOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                   Client::Connect(client_options));
  return Join(std::move(client), options);
}

absl::StatusOr<std::unique_ptr<WorkerClient>> WorkerClient::Join(
    std::unique_ptr<Client> client, const WorkerOptions& options) {
  RETURN_IF_ERROR(JoinAs(*client, options));
  return std::unique_ptr<WorkerClient>(
      new WorkerClient(std::move(client), options));
}

WorkerClient::WorkerClient(std::unique_ptr<Client> client,
                           const WorkerOptions& options)
    : options_(options),
      client_(std::move(client)),
      keep_alive_([this] { KeepAlive(); }) {}

WorkerClient::~WorkerClient() {
  {
    MutexLock lock(&mutex_);
    ends_ = true;
    ending_.SignalAll();
  }
  keep_alive_.join();
  // Whoever cannot leave is noticed to be gone.
  client_->Leave(std::min(options_.lease, kLongestCall)).IgnoreError();
}

uint32_t WorkerClient::rank() const { return self().rank; }

uint64_t WorkerClient::epoch() const { return self().epoch; }

// Nobody, once client() has left on its own.
Worker WorkerClient::self() const {
  return client_->worker().value_or(Worker());
}

absl::Status WorkerClient::membership() const {
  MutexLock lock(&mutex_);
  return membership_;
}

absl::Status WorkerClient::Rejoin() {
  RETURN_IF_ERROR(JoinAs(*client_, options_));
  MutexLock lock(&mutex_);
  membership_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::StatusOr<Step> WorkerClient::SyncStep() {
  ASSIGN_OR_RETURN(const KeepAliveReply reply,
                   client_->KeepAlive(CallTimeout()));
  client_->set_step(reply.next_step - 1);
  return reply.next_step - 1;
}

absl::Status WorkerClient::Barrier(absl::string_view barrier) {
  return client_->Barrier(barrier);
}

// So short that a renewal that is lost leaves time for the next.
absl::Duration WorkerClient::CallTimeout() const {
  return std::min(RenewalInterval(options_.lease), kLongestCall);
}

void WorkerClient::KeepAlive() {
  const absl::Duration interval = RenewalInterval(options_.lease);
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (!ends_) ending_.WaitWithTimeout(&mutex_, interval);
      if (ends_) return;
    }
    RenewLease();
  }
}

void WorkerClient::RenewLease() {
  const uint64_t renewed = epoch();
  const absl::Status status = client_->KeepAlive(CallTimeout()).status();
  MutexLock lock(&mutex_);
  // What was said of a former epoch does not count.
  if (epoch() == renewed) membership_ = status;
}

}  // namespace tensorkv
