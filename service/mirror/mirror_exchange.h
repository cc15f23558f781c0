// Sums of rounds over the servers of a cluster.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_EXCHANGE_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/backend.h"
#include "kernels/device_link.h"
#include "service/mirror/mirror_counts.h"
#include "service/mirror/mirror_group.h"
#include "service/mirror/mirror_session.h"
#include "service/store/round_exchange.h"

namespace tensorkv {

// A RoundExchange of the servers that SetGroup has named last. Before SetGroup
// every rank is local, and rounds end with Unavailable. The worker of a rank is
// local to the server at place rank mod n, of n servers. Thread-safe.
class MirrorExchange final : public RoundExchange {
 public:
  using MakePeer =
      std::function<std::shared_ptr<MirrorPeer>(const std::string& server)>;

  struct Options {
    MirrorTimes times;
    // True if SetGroup will be called: mirrored namespaces may be created
    // before.
    bool awaits_group = false;
    // Runs the sums on the host, and outlives the exchange; null: a thread of
    // the exchange's own.
    TaskRunner* runner = nullptr;
    // Hears why ranges do not go by the link, where this server leads.
    NotOnDevices not_on_devices;
  };

  // These outlive the calls that are under way. `backend` is the host's; `link`
  // is that of the only device that has tensors, or null.
  MirrorExchange(const Options& options, Alarms* alarms, Backend* backend,
                 DeviceLink* link = nullptr);
  // REQUIRES: the peers have ended their calls.
  ~MirrorExchange() override { Stop(); }

  // Has rounds summed from now on over `servers`, by name, of which this server
  // is the one at place `own`; all of them must give the same order. If they
  // are the servers of before, does nothing; else what is under way with those
  // fails with Unavailable, while the sums that this server has, and what it
  // knows of sums that count, stay. Does nothing after Stop.
  void SetGroup(const std::vector<std::string>& servers, uint32_t own,
                const MakePeer& make_peer);

  // Takes no more rounds, and waits for the sums that are being made, so that
  // this server does not stop without a sum that counts at others. Returns
  // false if that takes longer than the timeout.
  bool Drain(absl::Duration timeout);

  // Ends all rounds with Unavailable, also later ones. When this returns no
  // device is used any more. Waits for callbacks: none may call it.
  void Stop();

  const MirrorCounts& counts() const { return counts_; }

  // Answers a call of a server of the group, by calling `done` once, on any
  // thread, maybe before this returns. Errors: Unavailable: before SetGroup ·
  // FailedPrecondition: SetGroup will not be called · those of
  // MirrorSession::Handle.
  template <typename Request>
  void Handle(const Request& request, MirrorCallback<Request> done) {
    const std::shared_ptr<MirrorSession> session = this->session();
    if (session == nullptr) return std::move(done)(HasNoGroup());
    session->Handle(request, std::move(done));
  }

  absl::Status CheckGroup(uint32_t num_workers) const override;
  bool IsLocal(uint32_t rank) const override;
  void Sum(const std::string& name_space, const RefPtr<BudgetAccount>& account,
           std::vector<RoundToSum> rounds,
           std::function<void(std::vector<SummedRound>)> summed) override;
  void Applied(const std::string& name_space, absl::string_view key,
               Step step) override;
  void Remove(const std::string& name_space, const std::string& key,
              Version version) override;
  void Forget(const std::string& name_space) override;

 private:
  absl::Status HasNoGroup() const;
  std::shared_ptr<MirrorSession> session() const;

  const Options options_;
  Alarms& alarms_;
  Backend& backend_;
  DeviceLink* const link_;
  // The number of servers, and this one's place among them.
  std::atomic<uint32_t> num_servers_ = 1;
  std::atomic<uint32_t> own_ = 0;
  MirrorCounts counts_;
  // The sums of all sessions.
  const std::shared_ptr<MirrorSums> sums_ = std::make_shared<MirrorSums>();
  mutable Mutex mutex_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<MirrorSession> session_ ABSL_GUARDED_BY(mutex_);
  // Null without a link. Last, with what follows: tasks use the rest.
  const std::unique_ptr<Executor> device_thread_;
  Executor executor_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_EXCHANGE_H_
