// A server's part in moves of partitions, without the server.

#ifndef TENSORKV_TESTS_SERVICE_CLUSTER_MOVING_SERVER_H_
#define TENSORKV_TESTS_SERVICE_CLUSTER_MOVING_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/alarms.h"
#include "channels/channels.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/cluster/cluster_records.h"
#include "service/cluster/known_placement.h"
#include "service/cluster/partition_receiver.h"
#include "service/cluster/partition_restorer.h"
#include "service/cluster/partition_sender.h"
#include "service/cluster/placement_stage.h"
#include "service/store/call_dispatch.h"
#include "service/store/memory_tensor_store.h"
#include "tests/integration/etcd_process.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

inline bool IsCommit(const MoveRequest& request) {
  return std::holds_alternative<v1::CommitMoveRequest>(request);
}

// Returns whether the request ends a move that has come to nothing.
inline bool IsGivingUp(const MoveRequest& request) {
  const auto* const begin = std::get_if<v1::BeginMoveRequest>(&request);
  return begin != nullptr && begin->partitions().empty();
}

// A store behind a placement, and who sends and receives its partitions. It is
// registered, and as a server that was started anew if there was one before.
class MovingServer {
 public:
  static constexpr uint32_t kPartitions = 8;

  // `patience` is for rounds.
  MovingServer(const EtcdProcess& etcd, const std::string& name,
               absl::Duration patience = absl::Seconds(20))
      : options_{.etcd = {etcd.address()},
                 .cluster = "c",
                 .server_name = name,
                 .address = name + ":1",
                 .lease = absl::Minutes(5)},
        records_(
            options_, [](const std::string&) {}, &channels_),
        lease_(*records_.etcd().GrantLease(options_.lease)),
        known_(name,
               [this](const KnownPlacement::View& view) {
                 store_.Own(view.own_partitions());
               }),
        own_keys_(&known_,
                  [this](absl::string_view name_space, const Caller& caller,
                         const CallId& id) {
                    return store_.Knows(name_space, caller, id);
                  }),
        calls_({.store = &store_, .stages = {&own_keys_}}),
        environment_{.server_name = name,
                     .store = &store_,
                     .known = &known_,
                     .own_lease = [this] { return lease_; }},
        receiver_(options_, environment_,
                  ClusterRecords(
                      options_, [](const std::string&) {}, &channels_)),
        sender_(
            environment_, &records_,
            [this](const ClusterServer&, const MoveRequest& request) {
              return call(request);
            },
            patience, [this] { return goes_on(); }),
        restorer_(environment_, &records_, &receiver_, {},
                  [](const std::string&) {}) {
    EXPECT_OK(records_.Register(lease_, /*only_if_absent=*/false));
  }

  // Does what its attempt does that reads the placement.
  void Learn() {
    EXPECT_OK(known_.Set(records_.Read()->placement, options_.server_name));
  }

  absl::StatusOr<PushReply> Push(PushRequest request) {
    return calls_.MakeAndWait(std::move(request));
  }
  absl::StatusOr<PullReply> Pull(const std::string& name_space,
                                 const std::string& key) {
    PullRequest request;
    request.name_space = name_space;
    request.entries.push_back({.key = key});
    return calls_.MakeAndWait(std::move(request));
  }
  absl::Status Init(const std::string& name_space, const std::string& key,
                    Tensor value) {
    InitRequest request;
    request.name_space = name_space;
    request.entries.push_back({key, std::move(value)});
    return calls_.MakeAndWait(std::move(request)).status();
  }

  const MoveEnvironment& environment() const { return environment_; }
  MemoryTensorStore& store() { return store_; }
  const CallDispatch& calls() { return calls_; }
  ClusterRecords& records() { return records_; }
  PartitionReceiver& receiver() { return receiver_; }
  PartitionSender& sender() { return sender_; }
  PartitionRestorer& restorer() { return restorer_; }

  // Has it answer a call of another server.
  absl::Status Take(const MoveRequest& request) {
    return std::visit(
        [this](const auto& each) { return receiver_.Handle(each); }, request);
  }

  // What its calls to the other server do.
  std::function<absl::Status(const MoveRequest& request)> call;
  // Whether its moves go on.
  std::function<absl::Status()> goes_on = [] { return absl::OkStatus(); };

 private:
  CpuBackend backend_{1};
  SteadyAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 256 << 20}, &backend_, &alarms_};
  const ClusterOptions options_;
  Channels channels_;
  ClusterRecords records_;
  const int64_t lease_;
  KnownPlacement known_;
  const PlacementStage own_keys_;
  const CallDispatch calls_;
  const MoveEnvironment environment_;
  PartitionReceiver receiver_;
  PartitionSender sender_;
  PartitionRestorer restorer_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_CLUSTER_MOVING_SERVER_H_
