// Says what a server holds, as the JSON that its status page reads.

#ifndef TENSORKV_SERVICE_STATUS_STATUS_JSON_H_
#define TENSORKV_SERVICE_STATUS_STATUS_JSON_H_

#include <string>
#include <vector>

#include "contract/requests.h"
#include "nlohmann/json.hpp"
#include "service/store/namespace_summary.h"

namespace tensorkv {

// A reply has at most so many workers, open rounds, ranks of each round, and
// servers of a cluster.
inline constexpr size_t kMaxStatusWorkers = 256;
inline constexpr size_t kMaxStatusRounds = 100;
inline constexpr size_t kMaxStatusRanks = 32;
inline constexpr size_t kMaxStatusServers = 256;

nlohmann::ordered_json JsonOf(const ServerStatus& status);
// Takes the first servers; null for a server in no cluster.
nlohmann::ordered_json JsonOf(const DescribeClusterReply& cluster);
// Leaves the workers out.
nlohmann::ordered_json JsonOf(const NamespaceStatus& status);
// Takes the slowest, in order of ranks; `lag` is behind the fastest.
nlohmann::ordered_json JsonOf(std::vector<WorkerStatus> workers);
// Takes the first; `num_missing` counts also the ranks that are left out.
nlohmann::ordered_json JsonOf(const std::vector<OpenRound>& rounds);
// Whom `rounds` wait for, those first whom most wait for: so many as a round
// has ranks. Who has not joined has no name.
nlohmann::ordered_json AwaitedJson(const std::vector<OpenRound>& rounds,
                                   const std::vector<WorkerStatus>& workers);
nlohmann::ordered_json JsonOf(const KeyStatus& status);

// Returns the JSON as UTF-8, whatever bytes the names have.
std::string TextOf(const nlohmann::ordered_json& json);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STATUS_STATUS_JSON_H_
