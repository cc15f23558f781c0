// The calls about servers. service.proto and cluster.proto explain their
// fields.

#ifndef TENSORKV_CONTRACT_SERVER_REQUESTS_H_
#define TENSORKV_CONTRACT_SERVER_REQUESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "contract/placement.h"

namespace tensorkv {

struct DescribeServerRequest {};

// How much of a GPU's memory tensors may take, and take now.
struct DeviceBudget {
  std::string device;
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;
};

struct ServerStatus {
  std::string version;
  uint64_t incarnation = 0;
  int64_t start_unix_seconds = 0;
  std::vector<std::string> devices;
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t max_message_bytes = 0;
  uint32_t max_entries = 0;
  // This has the budget of each of `devices`; it is empty where tensors are
  // kept on the host.
  std::vector<DeviceBudget> device_budgets;
};

using DescribeServerReply = ServerStatus;

struct DescribeClusterRequest {};

struct DescribeClusterReply {
  // The name of the server that answers; empty if it is in no cluster.
  std::string server_name;
  ClusterPlacement placement;
};

// Asks a cluster to move its keys to other servers. All are names of servers;
// returns before the keys have moved.
struct ResizeClusterRequest {
  std::vector<std::string> add;
  std::vector<std::string> remove;
  // Servers that are not live, and will not come back.
  std::vector<std::string> lost;
  // Gives up what lost servers had and nobody has restored yet.
  bool give_up = false;
};

struct ResizeClusterReply {
  // The servers that are to have the keys.
  std::vector<ClusterServer> servers;
  uint32_t partitions_to_move = 0;
  uint32_t partitions_to_restore = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_SERVER_REQUESTS_H_
