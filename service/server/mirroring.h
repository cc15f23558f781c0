// Says how a server holds keys together with others.

#ifndef TENSORKV_SERVICE_SERVER_MIRRORING_H_
#define TENSORKV_SERVICE_SERVER_MIRRORING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "contract/placement.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/device_link.h"
#include "service/cluster/known_placement.h"
#include "service/metrics/readings.h"
#include "service/mirror/grpc_mirror_peers.h"
#include "service/mirror/mirror_exchange.h"
#include "service/server/open_device.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Returns the link of the server's GPU to those of other servers; null if the
// device is the host, if `options` say so, or if "auto" finds no library that
// it can use (which is logged where there is a GPU). Errors:
// FailedPrecondition: a library that `options` name cannot be used.
absl::StatusOr<std::unique_ptr<DeviceLink>> OpenMirrorLink(
    const ServerOptions& options, const OpenedDevice& device);

// The MirrorExchange of a server, with all that it works with. It sums with the
// servers of the newest placement that it was told. Thread-safe.
class Mirroring {
 public:
  // `connect` gives the channels to other servers; `link` may be null.
  Mirroring(const ServerOptions& options, std::unique_ptr<DeviceLink> link,
            GrpcMirrorPeers::Connect connect);
  // Stops.
  ~Mirroring() { Stop(); }

  MirrorExchange* exchange() { return &exchange_; }

  const MirrorCounts& counts() const { return exchange_.counts(); }
  // Returns the metrics of the exchange, which must outlive them.
  std::vector<Reading> MirrorReadings() const;

  // Has the exchange sum with the servers of the placement from now on, and
  // fails what is under way with others. Does nothing if the placement is older
  // than the last one; takes only addresses from one that does not name this
  // server.
  void SetPlacement(const KnownPlacement::View& view);

  // Takes no more rounds, and waits until those that are being summed have
  // ended; returns false if they have not within `timeout`.
  bool Drain(absl::Duration timeout) { return exchange_.Drain(timeout); }
  // Ends what is under way with Unavailable, and all that comes later. Waits
  // for callbacks: none may call it.
  void Stop();

 private:
  absl::StatusOr<std::string> AddressOf(const std::string& server) const;

  CpuBackend backend_;
  const std::unique_ptr<DeviceLink> link_;
  SteadyAlarms alarms_;
  // Held while a placement is taken over, so that groups follow one another as
  // placements do. It is locked before mutex_.
  Mutex placing_;
  mutable Mutex mutex_;
  ClusterPlacement placement_ ABSL_GUARDED_BY(mutex_);
  MirrorExchange exchange_;
  GrpcMirrorPeers peers_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_MIRRORING_H_
