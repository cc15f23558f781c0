#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "bench/data_path/peers/tensorkv_peer.h"
#include "bench/data_path/peers/workload.h"
#include "bench/data_path/suites/suites.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

// Ours, in a namespace with that rule.
absl::StatusOr<Peer> MakeRulePeer(const PeerSet& peers,
                                  const std::string& rule) {
  const std::string name = absl::StrCat("rule-", rule);
  ASSIGN_OR_RETURN(std::shared_ptr<Client> client,
                   peers.Connect({.name_space = name}));
  RETURN_IF_ERROR(client->CreateNamespace(name, {.rule = {.name = rule}},
                                          OnExisting::kKeep));
  return TensorkvPeer(std::move(client), peers.our_server().pid());
}

absl::StatusOr<std::unique_ptr<Load>> MakeRuleLoad(const PeerSet& peers,
                                                   const std::string& rule,
                                                   const Workload& workload) {
  ASSIGN_OR_RETURN(const Peer peer, MakeRulePeer(peers, rule));
  return peer.make_load(workload);
}

void MeasureRule(const std::string& rule, const Workload& workload,
                 const PeerSet& peers, RowRunner* runner, Section* section) {
  const std::string name = absl::StrCat("rule/", rule, "/", SizeText(workload));
  if (!runner->MayBegin(name, section)) return;
  std::vector<Entrant> references;
  references.push_back({"assign", peers.ours().make_load(workload)});
  for (const Peer& peer : peers.references()) {
    if (peer.name != "naive" && peer.name != "memcpy") continue;
    references.push_back({peer.name, peer.make_load(workload)});
  }
  runner->Measure({.name = name, .bytes = workload.bytes_per_lane()},
                  {rule, MakeRuleLoad(peers, rule, workload)},
                  std::move(references), section);
}

// Ours, with pushes that are encoded so.
absl::StatusOr<std::unique_ptr<Load>> MakeEncodedLoad(
    const PeerSet& peers, const std::string& compression,
    const Workload& workload) {
  ASSIGN_OR_RETURN(const Compression parsed, Compression::Parse(compression));
  const std::string name = absl::StrCat("encoded-", compression);
  ASSIGN_OR_RETURN(std::shared_ptr<Client> client,
                   peers.Connect({.name_space = name,
                                  .compression = {.rules = {{"", parsed}}}}));
  RETURN_IF_ERROR(client->CreateNamespace(name, {}, OnExisting::kKeep));
  return TensorkvPeer(std::move(client), peers.our_server().pid())
      .make_load(workload);
}

// Contributions that a server holds: one of two workers has pushed them.
struct HeldContributions {
  int64_t num_keys = 0;
  int64_t bytes_per_key = 0;
};

// Pushes them in calls of some keys each, as the first of two workers.
absl::Status PushAsOneOfTwo(const ServerProcess& server,
                            const HeldContributions& held) {
  constexpr int64_t kBytesPerCall = 16 * kMiB;
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Connect({.target = server.address,
                                    .name_space = "held",
                                    .rank = 0,
                                    .timeout = kCallTimeout}));
  RETURN_IF_ERROR(client->CreateNamespace(
      "held",
      {.mode = Mode::kSync, .num_workers = 2, .rule = {.name = "sgd"}}));
  ASSIGN_OR_RETURN(const Tensor value, MakeValues(held.bytes_per_key));
  std::vector<InitEntry> values;
  std::vector<PushEntry> contributions;
  for (int64_t i = 0; i < held.num_keys; ++i) {
    values.push_back({.key = KeyText(0, i), .tensor = value});
    contributions.push_back({.key = KeyText(0, i), .tensor = value});
    const int64_t bytes = values.size() * held.bytes_per_key;
    if (bytes < kBytesPerCall && i + 1 < held.num_keys) continue;
    RETURN_IF_ERROR(client->Init(std::exchange(values, {})));
    RETURN_IF_ERROR(
        client->Push(std::exchange(contributions, {}), {.step = 1}).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<double> HeldBytesByCounted(ServerLauncher* launcher,
                                          const HeldContributions& held) {
  ASSIGN_OR_RETURN(const ServerProcess server,
                   launcher->StartTensorkv(Transport::kTcp));
  const int64_t bytes_before = ResidentBytesOf(server.pid());
  RETURN_IF_ERROR(PushAsOneOfTwo(server, held));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Client> client,
      Client::Connect({.target = server.address, .timeout = kCallTimeout}));
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   client->DescribeNamespace("held"));
  const double resident = ResidentBytesOf(server.pid()) - bytes_before;
  const MemoryUse& counted = status.memory;
  return resident /
         static_cast<double>(counted.values + counted.state +
                             counted.contributions + counted.metadata);
}

}  // namespace

Section MeasureRules(const PeerSet& peers, RowRunner* runner) {
  Section section = {.title = "Pushes with a rule, TCP"};
  for (const char* const rule : {"sgd", "adam"}) {
    for (const int64_t bytes : {kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
      if (runner->plan().is_quick && bytes != kMiB && bytes != 16 * kMiB) {
        continue;
      }
      MeasureRule(rule, {.bytes_per_key = bytes}, peers, runner, &section);
    }
  }
  return section;
}

Section MeasureEncoded(const PeerSet& peers, RowRunner* runner) {
  Section section = {.title = "Encoded pushes, TCP"};
  struct Encoded {
    const char* compression;
    // Whether encoding takes so little that pushes gain by it on loopback.
    bool has_goal;
  };
  for (const auto& [compression, has_goal] :
       {Encoded{"2bit", true}, Encoded{"f16", true},
        Encoded{"f16,feedback", true}, Encoded{"topk:0.01", false},
        Encoded{"dithering:4", false}}) {
    for (const int64_t bytes : {kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
      if (runner->plan().is_quick && bytes != 16 * kMiB) continue;
      const Workload workload = {.bytes_per_key = bytes};
      const std::string name =
          absl::StrCat("encoded/", compression, "/", SizeText(workload));
      if (has_goal) {
        section.goals.push_back(
            {.name = name, .bound = 1, .reference = "plain"});
      }
      runner->MeasureBeside(
          name, bytes,
          {compression,
           [&, text = compression] {
             return MakeEncodedLoad(peers, text, workload);
           }},
          {"plain", [&] { return peers.ours().make_load(workload); }},
          &section);
    }
  }
  return section;
}

Section MeasureHeldMemory(ServerLauncher* launcher, RowRunner* runner) {
  Section section = {.title = "Memory of contributions that wait"};
  for (const HeldContributions& held : {HeldContributions{100'000, 1 << 10},
                                        {8'000, 16 << 10},
                                        {16, 16 * kMiB}}) {
    const std::string name =
        absl::StrCat("held/", held.num_keys, "x", ByteText(held.bytes_per_key),
                     ", resident by counted bytes");
    if (!runner->MayBegin(name, &section)) continue;
    const absl::StatusOr<double> ratio = HeldBytesByCounted(launcher, held);
    if (ratio.ok()) {
      section.figures.push_back({.name = name, .value = *ratio});
    } else {
      runner->LeaveOut(name, ratio.status(), &section);
    }
    section.goals.push_back(
        {.name = name, .kind = Goal::Kind::kFigure, .bound = 1.2});
  }
  return section;
}

}  // namespace tensorkv::bench
