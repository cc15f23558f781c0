// Three servers that are one store, for tests of snapshots.

#ifndef TENSORKV_TESTS_CLIENT_CLUSTER_CLUSTER_SNAPSHOTS_FIXTURE_H_
#define TENSORKV_TESTS_CLIENT_CLUSTER_CLUSTER_SNAPSHOTS_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connection.h"
#include "contract/placement.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {

inline constexpr size_t kNumServers = 3;
inline constexpr int64_t kElements = 1 << 14;

inline PublishAs PublicationOf(uint32_t keep_last = 0) {
  PublishAs publish_as;
  publish_as.set_series("s");
  publish_as.set_keep_last(keep_last);
  return publish_as;
}

inline CreateSnapshotRequest StepOf(CreateSnapshotRequest::Step step,
                                    const CreateSnapshotReply& reserved = {}) {
  CreateSnapshotRequest request;
  request.set_series("s");
  request.set_step(step);
  if (reserved.uid() != 0) {
    request.set_uid(reserved.uid());
    request.set_number(reserved.number());
  }
  return request;
}

class ClusterSnapshotsTest : public ::testing::Test {
 protected:
  explicit ClusterSnapshotsTest(uint64_t split_bytes = 0)
      : cluster_(kNumServers, split_bytes), connection_(cluster_.Connect()) {
    for (size_t i = 0; i < kNumServers; ++i) {
      keys_.push_back(cluster_.KeyOf(i));
      servers_.push_back(cluster_.ConnectToOne(i));
    }
  }

  Caller Store() const { return Caller(*connection_, ""); }
  // One of the servers, as if there were no other.
  Caller At(size_t server) const { return Caller(*servers_[server], ""); }
  void Reconnect() {
    connection_ = cluster_.Connect();
    for (size_t i = 0; i < kNumServers; ++i) {
      servers_[i] = cluster_.ConnectToOne(i);
    }
  }
  size_t home() const { return cluster_.HomeOf(""); }
  size_t other() const { return (home() + 1) % kNumServers; }

  // Publishes a state, all of whose elements are that number.
  absl::StatusOr<uint64_t> Publish(double value, uint32_t keep_last = 0,
                                   uint64_t number = 0) {
    InitRequest init = {.on_existing = OnExisting::kReplace,
                        .publish_as = PublicationOf(keep_last)};
    if (number != 0) init.publish_as->set_number(number);
    for (const std::string& key : keys_) {
      init.entries.push_back({key, Full({kElements}, value)});
    }
    const absl::StatusOr<InitReply> reply = Store().Call(init);
    if (!reply.ok()) return reply.status();
    return reply->published->number;
  }
  absl::StatusOr<PullReply> PullAt(const SnapshotReference& at) {
    PullRequest pull = {.at = at};
    for (const std::string& key : keys_) pull.entries.push_back({key});
    return Store().Call(pull);
  }
  // Expects that all keys of it are that number.
  void ExpectHas(double value, const SnapshotReference& at) {
    const absl::StatusOr<PullReply> reply = PullAt(at);
    ASSERT_OK(reply.status());
    EXPECT_EQ(reply->snapshot_number, at.number());
    for (const Value& each : reply->values) {
      EXPECT_THAT(each, HasTensor(IsFilledWith(value)));
    }
  }
  // Gives each partition but that of the home to the next server, without what
  // is there.
  void MoveAllButHome() {
    std::vector<uint32_t> owners = cluster_.placement().owners;
    const uint32_t of_home = PartitionOf("", "", 64);
    for (uint32_t i = 0; i < 64; ++i) {
      if (i != of_home) owners[i] = (owners[i] + 1) % kNumServers;
    }
    cluster_.SetOwners(owners);
  }
  uint64_t RetainedBytes() { return Store().Describe()->memory().retained(); }
  absl::StatusOr<CreateSnapshotReply> Make(
      size_t server, CreateSnapshotRequest::Step step,
      const CreateSnapshotReply& reserved = {}) {
    return At(server).Call(StepOf(step, reserved));
  }

  TestCluster cluster_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::unique_ptr<Connection>> servers_;
  // One of each server.
  std::vector<std::string> keys_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_CLUSTER_CLUSTER_SNAPSHOTS_FIXTURE_H_
