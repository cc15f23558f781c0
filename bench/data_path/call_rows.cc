#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/loads.h"
#include "bench/data_path/rows.h"
#include "bench/data_path/workload.h"

namespace tensorkv::bench {
namespace {

constexpr Verb kAllVerbs[] = {Verb::kPush, Verb::kPull, Verb::kPushPull};
constexpr Verb kDirections[] = {Verb::kPush, Verb::kPull};

std::string RowName(const char* family, const Workload& workload) {
  return absl::StrCat(family, "/", NameOf(workload.verb), "/",
                      SizeText(workload));
}

MakeLoad Ours(Servers* servers, const Workload& workload) {
  return [=] { return TensorkvLoad(servers, "tensorkv", workload); };
}

Reference Other(Servers* servers, const char* store, const Workload& workload,
                double goal = 0) {
  return {store, [=] { return SocketLoad(servers, store, workload); }, goal};
}

Row TensorRow(Servers* servers, Verb verb, int64_t bytes) {
  const Workload workload = {.verb = verb, .bytes_per_key = bytes};
  const bool is_large = bytes >= kMiB;
  // A call of 4 KiB is bound by gRPC. Values of 1 GiB are beyond Redis and
  // memcached.
  const double floor_goal = is_large && verb != Verb::kPushPull ? 0.65 : 0;
  const double store_goal =
      bytes == 64 * kMiB && verb != Verb::kPushPull ? 1 : 0;
  return {.name = RowName("tcp", workload),
          .make_load = Ours(servers, workload),
          .references = {Other(servers, "raw", workload, floor_goal),
                         {"naive", [=] { return NaiveLoad(servers, workload); },
                          is_large ? 3 : 0.77},
                         Other(servers, "redis", workload, store_goal),
                         Other(servers, "memcached", workload, store_goal)},
          .is_quick = bytes < kGiB && (verb != Verb::kPushPull || !is_large)};
}

Row BatchRow(Servers* servers, Verb verb) {
  const Workload workload = {
      .verb = verb, .bytes_per_key = 256, .num_keys = 10'000};
  return {.name = RowName("tcp", workload),
          .make_load = Ours(servers, workload),
          .references = {Other(servers, "redis", workload, 1),
                         Other(servers, "memcached", workload)}};
}

// Returns a row of ours beside ours.
Row OursRow(Servers* servers, const char* family, const Workload& ours,
            const Workload& other, double goal) {
  return {.name = RowName(family, ours),
          .make_load = Ours(servers, ours),
          .references = {{SizeText(other), Ours(servers, other), goal}}};
}

absl::StatusOr<Load> TlsLoad(Servers* servers, const Workload& workload) {
  ASSIGN_OR_RETURN(const std::string name, servers->WithTls());
  ASSIGN_OR_RETURN(const ServerProcess server, servers->Get(name));
  ASSIGN_OR_RETURN(
      std::shared_ptr<Client> client,
      Connect(servers, name, {.credentials = {.tls_ca = servers->tls_ca()}}));
  return TensorkvLoad(std::move(client), server.pid, workload);
}

Row TlsRow(Servers* servers, Verb verb, int64_t bytes) {
  const Workload workload = {.verb = verb, .bytes_per_key = bytes};
  return {.name = RowName("tls", workload),
          .make_load = [=] { return TlsLoad(servers, workload); },
          .references = {{"plain", Ours(servers, workload)}}};
}

}  // namespace

std::vector<Row> CallRows(Servers* servers) {
  std::vector<Row> rows;
  for (const int64_t bytes : {4 * kKiB, kMiB, 64 * kMiB, kGiB}) {
    for (const Verb verb : kAllVerbs) {
      rows.push_back(TensorRow(servers, verb, bytes));
    }
  }
  for (const Verb verb : kAllVerbs) rows.push_back(BatchRow(servers, verb));
  for (const Verb verb : kDirections) {
    rows.push_back(OursRow(servers, "size",
                           {.verb = verb, .bytes_per_key = 64 * kMiB},
                           {.verb = verb, .bytes_per_key = kMiB}, 0.9));
    rows.push_back(
        OursRow(servers, "batch",
                {.verb = verb, .bytes_per_key = 4 * kKiB, .num_keys = 1000},
                {.verb = verb, .bytes_per_key = 4 * kMiB}, 0.8));
    rows.push_back(TlsRow(servers, verb, 4 * kKiB));
    rows.push_back(TlsRow(servers, verb, 64 * kMiB));
  }
  return rows;
}

}  // namespace tensorkv::bench
