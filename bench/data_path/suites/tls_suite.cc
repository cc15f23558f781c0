#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/tensorkv_peer.h"
#include "bench/data_path/peers/workload.h"
#include "bench/data_path/suites/suites.h"

namespace tensorkv::bench {
namespace {

std::vector<Workload> TlsWorkloads() {
  std::vector<Workload> workloads;
  for (const int64_t bytes : {4 * kKiB, 64 * kMiB}) {
    for (const Verb verb : {Verb::kPush, Verb::kPull}) {
      workloads.push_back({.verb = verb, .bytes_per_key = bytes});
    }
  }
  return workloads;
}

std::string TlsRowName(const Workload& workload) {
  return absl::StrCat("tls/", NameOf(workload.verb), "/", SizeText(workload));
}

absl::StatusOr<Peer> TlsPeer(const TlsServerProcess& server) {
  ASSIGN_OR_RETURN(std::shared_ptr<Client> client,
                   Client::Connect({.target = server.process.address,
                                    .credentials = {.tls_ca = server.ca},
                                    .timeout = kCallTimeout}));
  return TensorkvPeer(std::move(client), server.process.pid());
}

absl::Status Measure(const PeerSet& plain, ServerLauncher* launcher,
                     RowRunner* runner, Section* section) {
  ASSIGN_OR_RETURN(const TlsServerProcess server,
                   launcher->StartTensorkvWithTls());
  ASSIGN_OR_RETURN(const Peer ours, TlsPeer(server));
  for (const Workload& workload : TlsWorkloads()) {
    runner->MeasureBeside(
        TlsRowName(workload), workload.bytes_per_lane(),
        {"tls", [&] { return ours.make_load(workload); }},
        {"plain", [&] { return plain.ours().make_load(workload); }}, section);
  }
  return absl::OkStatus();
}

}  // namespace

Section MeasureTls(const PeerSet& plain, ServerLauncher* launcher,
                   RowRunner* runner) {
  Section section = {.title = "One tensor, TLS"};
  const std::vector<Workload> workloads = TlsWorkloads();
  const bool is_wanted = std::any_of(workloads.begin(), workloads.end(),
                                     [runner](const Workload& each) {
                                       return runner->Wants(TlsRowName(each));
                                     });
  if (!is_wanted || !runner->HasTimeFor("tls", &section)) return section;
  const absl::Status status = Measure(plain, launcher, runner, &section);
  if (!status.ok()) RowRunner::LeaveOut("tls", status, &section);
  return section;
}

}  // namespace tensorkv::bench
