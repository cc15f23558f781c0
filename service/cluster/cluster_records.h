// Reads and writes what etcd has of a cluster.

#ifndef TENSORKV_SERVICE_CLUSTER_CLUSTER_RECORDS_H_
#define TENSORKV_SERVICE_CLUSTER_CLUSTER_RECORDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "channels/channels.h"
#include "contract/placement.h"
#include "service/cluster/cluster_options.h"
#include "service/cluster/etcd_client.h"

namespace tensorkv {

// ClusterReading is what etcd has of the cluster, read at one moment.
struct ClusterReading {
  // Registration says how a server is registered.
  struct Registration {
    int64_t lease = 0;
    // The revision by which it was written: a server that starts anew has
    // another.
    int64_t revision = 0;
  };

  // Has no owners if there is no placement yet. Its servers are live, and have
  // addresses, as they are registered.
  ClusterPlacement placement;
  int64_t placement_revision = 0;
  // The registered servers, in order of their names.
  std::vector<ClusterServer> servers;
  std::map<std::string, Registration> registrations;
  // The servers that are to have the keys; those of the placement, if no
  // ResizeCluster has said otherwise.
  std::vector<ClusterServer> wanted;
  int64_t wanted_revision = 0;
};

// Reads and writes, as messages of cluster.proto:
//
//   /tensorkv/CLUSTER/servers/NAME   a ClusterServer, for as long as its lease
//   /tensorkv/CLUSTER/placement      the ClusterPlacement
//   /tensorkv/CLUSTER/wanted         a ClusterPlacement without owners: whose
//                                    servers are to have the keys
//
// A malformed registration counts as none; all else has to be right. Functions
// that return a bool write on a condition, and return whether it held. Etcd may
// be asked twice, so false does not say that nothing was written: whoever has
// to know reads.
//
// Confined to one thread; each call blocks until etcd answers. Errors of all:
// those of Etcd · DataLoss.
class ClusterRecords {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Reads and writes with `etcd`.
  ClusterRecords(const ClusterOptions& options, Log log,
                 std::unique_ptr<Etcd> etcd);
  // Reads and writes with an EtcdClient of the options, over `etcd`, which
  // outlives this. An answer is waited for during a fifth of the lease, at most
  // 5 s.
  ClusterRecords(const ClusterOptions& options, Log log, Channels* etcd);

  // Asks etcd whether the caller may read and write all this, and changes
  // nothing. Errors: FailedPrecondition: it may not.
  absl::Status CheckAccess();
  absl::StatusOr<ClusterReading> Read();
  // Registers the server of the options with `lease`. If `only_if_absent`, does
  // nothing, and returns OK, where a server is registered by its name.
  absl::Status Register(int64_t lease, bool only_if_absent);
  // Writes the placement if there is none.
  absl::StatusOr<bool> CreatePlacement(const ClusterPlacement& placement);
  // Writes the placement if the one that is there has that revision, and the
  // registration of each server named has the revision given for it.
  absl::StatusOr<bool> ReplacePlacement(
      const ClusterPlacement& placement, int64_t revision,
      const std::map<std::string, int64_t>& registrations = {});
  // Writes which servers are wanted, if what is there has that revision.
  absl::StatusOr<bool> SetWanted(const std::vector<ClusterServer>& servers,
                                 int64_t revision);
  // Writes the placement and which servers are wanted, if both are as `read`
  // has them, and none of the servers `gone` is registered.
  absl::StatusOr<bool> ReplacePlacementAndWanted(
      const ClusterPlacement& placement,
      const std::vector<ClusterServer>& wanted, const ClusterReading& read,
      const std::vector<std::string>& gone);

  Etcd& etcd() { return *etcd_; }

 private:
  std::string PlacementKey() const { return prefix_ + "placement"; }
  std::string WantedKey() const { return prefix_ + "wanted"; }
  std::string ServersPrefix() const { return prefix_ + "servers/"; }
  std::string OwnKey() const { return ServersPrefix() + options_.server_name; }
  // Adds what reads the placement, what is wanted, and the registrations.
  void AddRangeOfAll(etcdserverpb::TxnRequest* txn) const;
  // Returns whether its conditions held.
  absl::StatusOr<bool> Write(const etcdserverpb::TxnRequest& txn);
  void AddRegistered(const etcdserverpb::KeyValue& entry,
                     ClusterReading& reading);

  const ClusterOptions options_;
  const std::string prefix_;
  const Log log_;
  std::unique_ptr<Etcd> etcd_;
  // The keys of registrations that were passed over.
  std::set<std::string> passed_over_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_CLUSTER_RECORDS_H_
