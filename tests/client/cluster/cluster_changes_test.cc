// What has changed, of keys of a cluster: in slices, and moved.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/change_reader.h"
#include "client/client.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace cluster_changes_test {

constexpr size_t kNumServers = 3;
constexpr int64_t kRows = 1 << 10;
constexpr int64_t kRowSize = 1 << 10;

class ClusterChangesTest : public ::testing::Test {
 protected:
  // Publishes the next snapshot, in which all keys are 1 but for one element.
  void Publish(int64_t position, float element) {
    std::vector<InitEntry> entries;
    for (const std::string& key : keys_) {
      Tensor tensor = Full({kRows, kRowSize}, 1);
      tensor.mutable_elements<float>()[position] = element;
      entries.push_back({key, std::move(tensor)});
    }
    PublishAs publish_as;
    publish_as.set_series("s");
    ASSERT_OK(client_.InitAndPublish(std::move(entries), OnExisting::kReplace,
                                     publish_as));
  }

  // Expects that the reader gets the latest, which has that element.
  void ExpectReads(int64_t position, float element) {
    PullRequest request = {.at = LatestSnapshot("s")};
    for (const std::string& key : keys_) request.entries.push_back({key});
    ASSERT_OK_AND_ASSIGN(const PullReply reply,
                         reader_.Pull(client_, std::move(request)));
    for (const Value& value : reply.values) {
      ASSERT_EQ(value.tensor.shape(), Shape({kRows, kRowSize}));
      std::vector<float> expected(kRows * kRowSize, 1);
      expected[position] = element;
      EXPECT_TRUE(value.tensor.elements<float>() ==
                  absl::MakeConstSpan(expected));
    }
  }

  // "large" is in slices, the other key is not.
  explicit ClusterChangesTest(uint64_t split_bytes = 1 << 20)
      : cluster_(kNumServers, split_bytes),
        client_(cluster_.Connect(), {.target = "cluster"}) {}

  TestCluster cluster_;
  Client client_;
  ChangeReader reader_;
  std::vector<std::string> keys_ = {"large"};
};

TEST_F(ClusterChangesTest, KeysInSlicesComeAsTheChangesOfTheirSlices) {
  Publish(0, 5);
  ExpectReads(0, 5);
  const uint64_t bytes = reader_.counts().bytes;
  EXPECT_EQ(bytes, kRows * kRowSize * sizeof(float));
  EXPECT_EQ(reader_.counts().deltas, 0);

  Publish(kRows * kRowSize - 1, 7);
  ExpectReads(kRows * kRowSize - 1, 7);

  EXPECT_GT(reader_.counts().deltas, 1) << "one for each slice";
  EXPECT_EQ(reader_.counts().wholes, 1);
  EXPECT_LT(reader_.counts().bytes - bytes, 1000);
  const uint64_t deltas = reader_.counts().deltas;

  ExpectReads(kRows * kRowSize - 1, 7);

  EXPECT_EQ(reader_.counts().deltas, deltas);
  EXPECT_EQ(reader_.counts().unchanged, 1);
}

class MovedChangesTest : public ClusterChangesTest {
 protected:
  MovedChangesTest() : ClusterChangesTest(/*split_bytes=*/0) {
    keys_ = {};
    for (size_t i = 0; i < kNumServers; ++i) keys_.push_back(cluster_.KeyOf(i));
  }

  // Has the next server own what each owns, but for the home of the namespace.
  void MoveAll() {
    std::vector<uint32_t> owners = cluster_.placement().owners;
    const uint32_t of_home = PartitionOf("", "", owners.size());
    for (uint32_t i = 0; i < owners.size(); ++i) {
      if (i != of_home) owners[i] = (owners[i] + 1) % kNumServers;
    }
    cluster_.SetOwners(owners);
  }
};

TEST_F(MovedChangesTest, TokensOfAnotherServerGetTheWhole) {
  Publish(0, 5);
  ExpectReads(0, 5);
  EXPECT_EQ(reader_.counts().wholes, kNumServers);
  MoveAll();

  // They begin anew there, with the versions that they had had elsewhere.
  Publish(3, 7);
  ExpectReads(3, 7);

  EXPECT_EQ(reader_.counts().wholes, 2 * kNumServers);
  EXPECT_EQ(reader_.counts().unchanged, 0);
  Publish(4, 8);
  ExpectReads(4, 8);
  EXPECT_EQ(reader_.counts().deltas, kNumServers);
}

}  // namespace cluster_changes_test
}  // namespace tensorkv::testing
