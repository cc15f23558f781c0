#include "contract/placement.h"

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// Computed by the reference implementation, python-xxhash.
TEST(PlacementTest, PartitionsAreThoseThatTheContractNames) {
  struct Case {
    absl::string_view name_space;
    absl::string_view key;
    uint32_t num_partitions;
    uint32_t partition;
  };
  for (const Case& c : {
           Case{"", "", 4096, 1367},
           Case{"default", "", 4096, 1367},
           Case{"train", "fc1.w", 4096, 2592},
           Case{"train", "fc1.w", 7, 1},
           Case{"né", "schicht/∑", 65536, 42233},
       }) {
    EXPECT_EQ(PartitionOf(c.name_space, c.key, c.num_partitions), c.partition)
        << c.name_space << " " << c.key;
  }
}

TEST(PlacementTest, OwnerIsThatOfThePartition) {
  ClusterPlacement placement;
  placement.servers.resize(3);
  placement.owners = {2, 0, 1, 2};
  for (const char* const key : {"", "a", "b", "fc1.w"}) {
    EXPECT_EQ(OwnerOf(placement, "n", key),
              placement.owners[PartitionOf("n", key, 4)]);
  }
}

}  // namespace
}  // namespace tensorkv
