// What tests of moves of partitions share.

#ifndef TENSORKV_TESTS_SERVICE_CLUSTER_PARTITION_MOVES_H_
#define TENSORKV_TESTS_SERVICE_CLUSTER_PARTITION_MOVES_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/placement.h"
#include "gtest/gtest.h"
#include "service/cluster/placement_changes.h"
#include "tensor/rule_spec.h"
#include "tests/integration/etcd_process.h"
#include "tests/service/cluster/moving_server.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

inline constexpr char kNamespace[] = "n";
inline constexpr uint32_t kPartitions = MovingServer::kPartitions;

inline Tensor One(double value = 1) {
  return *Tensor::Filled(DType::kF32, Shape{2}, value);
}

inline PushRequest PushOne(const std::string& key,
                           const std::string& client = "",
                           uint64_t sequence = 0) {
  PushRequest request;
  request.name_space = kNamespace;
  request.entries.push_back({key, false, One()});
  if (sequence > 0) request.call_id = CallId{client, sequence};
  return request;
}

inline PushRequest PushStep(uint32_t rank, Step step) {
  PushRequest request = PushOne("k", absl::StrCat("worker", rank), step);
  request.worker = Worker{.rank = rank};
  request.step = step;
  return request;
}

inline std::vector<uint32_t> AllPartitions() {
  std::vector<uint32_t> all(kPartitions);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Server "a" has everything, and "b" is to have it.
class PartitionMoves : public ::testing::Test {
 protected:
  PartitionMoves() {
    const ClusterPlacement placement = {
        .cluster = "c",
        .version = 1,
        .servers = {{.name = "a", .address = "a:1"}},
        .owners = std::vector<uint32_t>(kPartitions)};
    EXPECT_OK(a_->records().CreatePlacement(placement));
    Connect(a_, b_);
    a_->Learn();
    b_->Learn();
  }

  // What `from` sends comes to `to`, also once that was started anew.
  static void Connect(const std::unique_ptr<MovingServer>& from,
                      const std::unique_ptr<MovingServer>& to) {
    from->call = [&to](const MoveRequest& request) {
      return to->Take(request);
    };
  }
  void CreateNamespace(const NamespaceConfig& config) {
    ASSERT_OK(MakeNow(a_->store(), testing::CreateOf(kNamespace, config)));
  }
  static NamespaceConfig Summing(const std::string& rule = "accumulate") {
    NamespaceConfig config;
    config.rule = *ParseRuleSpec(rule);
    return config;
  }
  static NamespaceConfig Rounds(uint32_t num_workers) {
    NamespaceConfig config = Summing();
    config.mode = Mode::kSync;
    config.num_workers = num_workers;
    return config;
  }
  // With a key "k" of zeros.
  void CreateKey(const NamespaceConfig& config) {
    CreateNamespace(config);
    ASSERT_OK(a_->Init(kNamespace, "k", One(0)));
  }
  static absl::Status Move(MovingServer& from, const std::string& to) {
    return from.sender().Move({.name = to}, AllPartitions(), kPartitions);
  }
  absl::Status Move() { return Move(*a_, "b"); }
  static float ElementOf(MovingServer& server, const std::string& key = "k") {
    const absl::StatusOr<PullReply> reply = server.Pull(kNamespace, key);
    EXPECT_OK(reply);
    return reply.ok() ? reply->values[0].tensor.elements<float>()[0] : NAN;
  }
  // The one that the placement names for all; null if they are not one's.
  MovingServer* Owner() {
    const ClusterPlacement placement = a_->records().Read()->placement;
    if (OwnsAll(placement, "a", AllPartitions())) return a_.get();
    return OwnsAll(placement, "b", AllPartitions()) ? b_.get() : nullptr;
  }

  EtcdProcess etcd_;
  std::unique_ptr<MovingServer> a_ = std::make_unique<MovingServer>(etcd_, "a");
  std::unique_ptr<MovingServer> b_ = std::make_unique<MovingServer>(etcd_, "b");
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_CLUSTER_PARTITION_MOVES_H_
