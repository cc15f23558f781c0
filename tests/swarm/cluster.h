// The servers of a seed: each has a store, and those of a cluster have what
// moves partitions between them.

#ifndef TENSORKV_TESTS_SWARM_CLUSTER_H_
#define TENSORKV_TESTS_SWARM_CLUSTER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/alarms.h"
#include "base/mutex.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/etcd_client.h"
#include "service/cluster/known_placement.h"
#include "service/cluster/partition_receiver.h"
#include "service/cluster/partition_restorer.h"
#include "service/cluster/partition_sender.h"
#include "service/cluster/placement_stage.h"
#include "service/mirror/mirror_exchange.h"
#include "service/store/call_dispatch.h"
#include "service/store/memory_tensor_store.h"
#include "tests/swarm/space.h"
#include "tests/swarm/stepped_backend.h"

namespace tensorkv::swarm {

// How the messages of one server fare, to other servers and to etcd.
struct Link {
  // Nothing passes any more: the server is dead.
  std::atomic<bool> is_cut = false;
  // Whoever sends or hears pauses.
  std::atomic<bool> is_slow = false;
  // So many of the next messages, answers, do not arrive.
  std::atomic<int> messages_to_lose = 0;
  std::atomic<int> answers_to_lose = 0;
  // So many of the next messages to servers come twice.
  std::atomic<int> messages_to_repeat = 0;

  absl::Status Send() { return Pass(messages_to_lose); }
  absl::Status Hear() { return Pass(answers_to_lose); }
  static bool TakeOne(std::atomic<int>& count);

 private:
  absl::Status Pass(std::atomic<int>& to_lose);
};

// What etcd has. Thread-safe.
class FakeEtcd {
 public:
  etcdserverpb::TxnResponse Txn(const etcdserverpb::TxnRequest& request);
  int64_t GrantLease();
  void EndLease(int64_t lease);
  // Rises with every change.
  int64_t revision() const;

 private:
  bool Holds(const etcdserverpb::Compare& compare) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, etcdserverpb::KeyValue> entries_
      ABSL_GUARDED_BY(mutex_);
  int64_t revision_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t last_lease_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One server's connection to it; both outlive this.
std::unique_ptr<Etcd> ConnectEtcd(FakeEtcd* etcd, Link* link);

// Who looks at etcd, and writes there what operators do, without delay.
class Admin {
 public:
  Admin();

  FakeEtcd& etcd() { return etcd_; }
  ClusterRecords& records() { return records_; }
  // That of this moment.
  const ClusterPlacement& Placement();

 private:
  FakeEtcd etcd_;
  Link link_;
  ClusterRecords records_;
  ClusterPlacement placement_;
  int64_t revision_ = 0;
};

// The options of a server by that name, of the swarm's cluster.
ClusterOptions ClusterOptionsOf(const std::string& name);

class Server {
 public:
  // What one in a cluster needs; all of it outlives the server.
  struct Peers {
    FakeEtcd* etcd = nullptr;
    // Runs sums.
    TaskRunner* runner = nullptr;
    CallPeer call;
    TakeoverCheckpoints checkpoints;
    // Whether a move goes on that waits for rounds or for a checkpoint.
    std::function<absl::Status()> goes_on;
  };

  // In no cluster if `name` is empty.
  Server(std::string name, MemoryTensorStoreOptions options, Alarms* alarms,
         Peers peers);

  const std::string& name() const { return name_; }
  MemoryTensorStore& store() { return store_; }
  // Takes what clients ask about keys.
  const CallDispatch& front() { return front_; }
  SteppedBackend& backend() { return backend_; }
  Link& link() { return link_; }
  uint64_t empty_bytes() const { return empty_bytes_; }
  // Ends its sums, and then its store.
  void Stop();

  // Those below are for servers in a cluster.
  MirrorExchange& exchange() { return *exchange_; }
  const KnownPlacement& known() const { return known_; }
  int64_t lease() const { return lease_; }
  // Reads the placement.
  absl::Status Learn();
  // What a server does again and again: finds out what has come of its last
  // move, or restores what a lost one had, or moves some of its own partitions
  // to `to`, a bit of `chosen` for each, if it is not null.
  absl::Status MoveOrRestore(const ClusterServer* to, uint32_t chosen);
  bool is_unsettled() const {
    return moving_ && moving_->sender.is_unsettled();
  }
  // What moves have brought that came to nothing is kept until then.
  void StopMoving() { moving_.reset(); }
  absl::Status Handle(const MoveRequest& request) {
    return std::visit(
        [this](const auto& each) { return moving_->receiver.Handle(each); },
        request);
  }

  // --- What the world knows of it, guarded by its mutex ----------------------
  bool is_dead = false;
  // Whether MoveOrRestore is under way.
  bool is_moving = false;
  // Its last checkpoint, and of which generations the namespaces were.
  std::optional<std::vector<SavedSpace>> saved;
  std::map<std::string, uint64_t> saved_generations;
  // Number the snapshots in the order in which they begin: the last one, and
  // the one that is saved.
  uint64_t last_snapshot = 0;
  uint64_t saved_snapshot = 0;

 private:
  struct Moving {
    Moving(Server& server, Peers peers);

    MoveEnvironment environment;
    ClusterRecords records;
    PartitionReceiver receiver;
    PartitionSender sender;
    PartitionRestorer restorer;
  };

  const std::string name_;
  SteppedBackend backend_;
  // Null in no cluster.
  const std::unique_ptr<MirrorExchange> exchange_;
  MemoryTensorStore store_;
  const uint64_t empty_bytes_;
  Link link_;
  KnownPlacement known_;
  const PlacementStage own_keys_;
  const CallDispatch front_;
  int64_t lease_ = 0;
  std::unique_ptr<Moving> moving_;
};

// Restores all that was saved.
absl::Status Fill(Restoration& restoration,
                  const std::vector<SavedSpace>& saved);

// What callers hear of one that has died.
absl::Status ServerIsGone();

using Servers = std::vector<std::unique_ptr<Server>>;

// One that lives, by chance.
uint32_t AnyServer(const Servers& servers, uint32_t chance);
// REQUIRES: there is one of that name.
uint32_t ServerOf(const Servers& servers, const std::string& name);

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_CLUSTER_H_
