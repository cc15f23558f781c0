// Sums of rounds over the servers of a cluster.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_EXCHANGE_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
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

// A RoundExchange of the servers that SetGroup names last. Before that every
// rank is local, and rounds wait for no other server: they end with
// Unavailable. The worker of a rank is local to the server at place rank mod n.
// Thread-safe.
class MirrorExchange final : public RoundExchange {
 public:
  using MakePeer =
      std::function<std::shared_ptr<MirrorPeer>(const std::string& server)>;

  struct Options {
    MirrorTimes times;
    // True if SetGroup will come: namespaces may be there before.
    bool awaits_group = false;
    // Runs what the host works on, and outlives the exchange; null: a thread of
    // its own.
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

  // The servers, in order, of which this is the one at `own`. If they are
  // others than before, what is under way fails. Sums that this server has, and
  // what it knows of those that count, stay.
  void SetGroup(const std::vector<std::string>& servers, uint32_t own,
                const MakePeer& make_peer);

  // Takes no more rounds, and waits for the sums that are being made: what
  // counts at other servers is not left out here when this one is stopped.
  // False if that takes longer than the timeout.
  bool Settle(absl::Duration timeout);

  // Ends all rounds with Unavailable, also later ones. When this returns no
  // device is used any more. Not for a callback to call.
  void Stop();

  const MirrorCounts& counts() const { return counts_; }

  // Takes a call of another server.
  void Take(const MirrorRequest& request, MirrorCallback done);

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
  std::shared_ptr<MirrorSession> session() const;

  const Options options_;
  Alarms& alarms_;
  Backend& backend_;
  DeviceLink* const link_;
  // The number of servers, and the place of this one.
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
