#include "service/status/status_json.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/shown_text.h"
#include "contract/choice_names.h"
#include "tensor/dtype.h"

namespace tensorkv {
namespace {

using Json = nlohmann::ordered_json;

// A rule whose text is longer, an expression for one, is cut.
constexpr size_t kMaxRuleBytes = 256;

// Numbers of 64 random bits, which JavaScript would round.
std::string Hex(uint64_t number) { return absl::StrFormat("%016x", number); }

Json RuleJson(const RuleSpec& rule) {
  std::string text = rule.ToString();
  if (text.size() <= kMaxRuleBytes) return text;
  return absl::StrCat(Utf8Prefix(text, kMaxRuleBytes), "...");
}

Json MemoryJson(const MemoryUse& use) {
  return {{"values", use.values},
          {"state", use.state},
          {"contributions", use.contributions},
          {"metadata", use.metadata}};
}

}  // namespace

Json JsonOf(const ServerStatus& status) {
  Json devices = Json::array();
  for (const DeviceBudget& device : status.device_budgets) {
    devices.push_back({{"device", device.device},
                       {"used_bytes", device.used_bytes},
                       {"budget_bytes", device.budget_bytes}});
  }
  return {{"version", status.version},
          {"incarnation", Hex(status.incarnation)},
          {"start_unix_seconds", status.start_unix_seconds},
          {"devices", status.devices},
          {"used_bytes", status.used_bytes},
          {"budget_bytes", status.budget_bytes},
          {"device_budgets", std::move(devices)}};
}

Json JsonOf(const DescribeClusterReply& cluster) {
  const ClusterPlacement& placement = cluster.placement;
  if (placement.owners.empty()) return Json();
  std::vector<size_t> owned(placement.servers.size());
  std::vector<size_t> missing(placement.servers.size());
  for (const uint32_t owner : placement.owners) ++owned[owner];
  for (const LostPartitions& lost : placement.lost) {
    for (const uint32_t partition : lost.partitions) {
      ++missing[placement.owners[partition]];
    }
  }
  Json servers = Json::array();
  const size_t end = std::min(placement.servers.size(), kMaxStatusServers);
  for (size_t i = 0; i < end; ++i) {
    const ClusterServer& server = placement.servers[i];
    servers.push_back({{"name", server.name},
                       {"address", server.address},
                       {"live", server.is_live},
                       {"self", server.name == cluster.server_name},
                       {"partitions", owned[i]},
                       {"partitions_to_restore", missing[i]}});
  }
  return {{"name", placement.cluster},
          {"server", cluster.server_name},
          {"placement_version", placement.version},
          {"num_servers", placement.servers.size()},
          {"servers", std::move(servers)}};
}

Json JsonOf(const NamespaceStatus& status) {
  return {{"name", status.name},
          {"mode", std::string(NameOf(status.config.mode))},
          {"rule", RuleJson(status.config.rule)},
          {"num_workers", status.config.num_workers},
          {"live_workers", status.live_workers},
          {"keys", status.num_keys},
          {"memory", MemoryJson(status.memory)},
          {"budget_bytes", status.config.budget_bytes},
          {"updates", status.updates_applied},
          {"rounds_open", status.rounds_open},
          {"rounds_closed", status.rounds_closed},
          {"rounds_failed", status.rounds_failed},
          {"calls_waiting", status.calls_waiting},
          {"leases_ended", status.lease_expirations},
          {"slowest_lag", status.slowest_lag}};
}

Json JsonOf(std::vector<WorkerStatus> workers) {
  Step fastest = 0;
  for (const WorkerStatus& each : workers) {
    fastest = std::max(fastest, each.step);
  }
  if (workers.size() > kMaxStatusWorkers) {
    std::nth_element(workers.begin(), workers.begin() + kMaxStatusWorkers,
                     workers.end(),
                     [](const WorkerStatus& a, const WorkerStatus& b) {
                       return a.step < b.step;
                     });
    workers.resize(kMaxStatusWorkers);
    std::sort(workers.begin(), workers.end(),
              [](const WorkerStatus& a, const WorkerStatus& b) {
                return a.worker.rank < b.worker.rank;
              });
  }
  Json list = Json::array();
  for (const WorkerStatus& each : workers) {
    list.push_back(
        {{"rank", each.worker.rank},
         {"name", each.name},
         {"live", each.is_live},
         {"left", each.has_left},
         {"step", each.step},
         {"lag", fastest - each.step},
         {"lease_seconds", absl::ToDoubleSeconds(each.lease_remaining)}});
  }
  return list;
}

Json JsonOf(const std::vector<OpenRound>& rounds) {
  Json list = Json::array();
  for (const OpenRound& each : rounds) {
    if (list.size() == kMaxStatusRounds) break;
    const size_t num_ranks = std::min(each.missing.size(), kMaxStatusRanks);
    const std::vector<uint32_t> ranks(
        each.missing.begin(),
        each.missing.begin() + static_cast<ptrdiff_t>(num_ranks));
    list.push_back({{"key", each.key},
                    {"step", each.step},
                    {"missing", ranks},
                    {"num_missing", each.missing.size()}});
  }
  return list;
}

Json AwaitedJson(const std::vector<OpenRound>& rounds,
                 const std::vector<WorkerStatus>& workers) {
  std::map<uint32_t, size_t> num_rounds;
  for (const OpenRound& round : rounds) {
    for (const uint32_t rank : round.missing) ++num_rounds[rank];
  }
  std::vector<std::pair<uint32_t, size_t>> ranks(num_rounds.begin(),
                                                 num_rounds.end());
  std::stable_sort(
      ranks.begin(), ranks.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  if (ranks.size() > kMaxStatusRanks) ranks.resize(kMaxStatusRanks);
  std::map<uint32_t, const WorkerStatus*> by_rank;
  for (const WorkerStatus& each : workers) by_rank[each.worker.rank] = &each;
  Json list = Json::array();
  for (const auto& [rank, rounds_of_rank] : ranks) {
    const auto worker = by_rank.find(rank);
    const bool has_joined = worker != by_rank.end();
    list.push_back({{"rank", rank},
                    {"name", has_joined ? worker->second->name : ""},
                    {"live", has_joined && worker->second->is_live},
                    {"left", has_joined && worker->second->has_left},
                    {"rounds", rounds_of_rank}});
  }
  return list;
}

Json JsonOf(const KeyStatus& status) {
  Json shape = Json::array();
  for (const int64_t dimension : status.shape.dimensions()) {
    shape.push_back(dimension);
  }
  Json json = {{"key", status.key},
               {"dtype", std::string(NameOf(status.dtype))},
               {"shape", std::move(shape)},
               // Versions after a restore are beyond what JavaScript has
               // exactly.
               {"version", std::to_string(status.version)},
               {"value_bytes", status.value_bytes},
               {"state_bytes", status.state_bytes},
               {"rule", RuleJson(status.rule)},
               {"updates", status.update_count}};
  if (status.rule.hyperparameters.contains("learning_rate")) {
    json["learning_rate"] = status.learning_rate;
  }
  return json;
}

std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tensorkv
