#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "bench/data_path/loads.h"
#include "bench/data_path/rows.h"
#include "bench/data_path/workload.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

constexpr uint32_t kNumWorkers = 4;
constexpr char kServer[] = "tensorkv";
constexpr char kKey[] = "w";
// How long a round may take that has all its contributions: far more than it
// needs.
constexpr absl::Duration kCloseTimeout = absl::Minutes(1);
// Between looks at it: the server needs its core for the round.
constexpr absl::Duration kPollInterval = absl::Microseconds(100);

MakeLoad Plain(Servers* servers, int64_t bytes) {
  return
      [=] { return TensorkvLoad(servers, kServer, {.bytes_per_key = bytes}); };
}

// Pushes in a namespace of its own.
absl::StatusOr<Load> LoadIn(Servers* servers, ClientOptions options,
                            const NamespaceConfig& config, int64_t bytes) {
  ASSIGN_OR_RETURN(const ServerProcess server, servers->Get(kServer));
  ASSIGN_OR_RETURN(std::shared_ptr<Client> client,
                   Connect(servers, kServer, std::move(options), config));
  return TensorkvLoad(std::move(client), server.pid, {.bytes_per_key = bytes});
}

Row RuleRow(Servers* servers, const std::string& rule, int64_t bytes) {
  return {.name = absl::StrCat("rule/", rule, "/", ByteText(bytes)),
          .make_load =
              [=] {
                return LoadIn(servers, {.name_space = "rule-" + rule},
                              {.rule = {.name = rule}}, bytes);
              },
          .references = {{"assign", Plain(servers, bytes)}},
          .is_quick = bytes == 16 * kMiB};
}

Row EncodedRow(Servers* servers, const std::string& compression, int64_t bytes,
               double goal) {
  return {.name = absl::StrCat("encoded/", compression, "/", ByteText(bytes)),
          .make_load = [=]() -> absl::StatusOr<Load> {
            ASSIGN_OR_RETURN(const Compression parsed,
                             Compression::Parse(compression));
            return LoadIn(servers,
                          {.name_space = "encoded-" + compression,
                           .compression = {.rules = {{"", parsed}}}},
                          {}, bytes);
          },
          .references = {{"plain", Plain(servers, bytes), goal}},
          .is_quick = bytes == 16 * kMiB};
}

// --- Rounds -----------------------------------------------------------------

// Workers that push at the same time, each to the key of its index.
struct Group {
  ~Group() {
    // The next load replaces what is left.
    if (name_space.empty()) {
      owner->Delete(keys, /*allow_missing=*/true).status().IgnoreError();
    } else {
      owner->DeleteNamespace(name_space).IgnoreError();
    }
  }

  absl::Status Push() {
    RETURN_IF_ERROR(InParallel(kNumWorkers, [this](int i) {
      return workers[i]->Push(keys[i], value).status();
    }));
    return name_space.empty() ? absl::OkStatus() : AwaitVersion(++version);
  }

  // Waits until the key has a version, without reading its value.
  absl::Status AwaitVersion(Version wanted) {
    const absl::Duration deadline = SteadyTime() + kCloseTimeout;
    while (SteadyTime() < deadline) {
      ASSIGN_OR_RETURN(const std::vector<KeyStatus> found, owner->Stat({kKey}));
      if (found.front().version() >= wanted) return absl::OkStatus();
      absl::SleepFor(kPollInterval);
    }
    return absl::DeadlineExceededError(
        absl::StrCat("expected version ", wanted, " of ", kKey));
  }

  std::string name_space;  // empty: keys without rounds, in the default one
  std::shared_ptr<Client> owner;
  std::vector<std::shared_ptr<Client>> workers;
  std::vector<std::string> keys;
  Tensor value;
  Version version = 1;
};

// Returns a load of rounds of a sync namespace with that rule; or, with none,
// as many pushes to keys that have nothing to do with each other.
absl::StatusOr<Load> GroupLoad(Servers* servers, const std::string& rule,
                               int64_t bytes) {
  const auto group = std::make_shared<Group>();
  if (!rule.empty()) {
    group->name_space = absl::StrCat("round-", rule, "-", bytes);
  }
  const NamespaceConfig config = {
      .mode = Mode::kSync, .num_workers = kNumWorkers, .rule = {.name = rule}};
  ASSIGN_OR_RETURN(group->value, MakeValues(bytes));
  ASSIGN_OR_RETURN(const ServerProcess server, servers->Get(kServer));
  ASSIGN_OR_RETURN(
      group->owner,
      Connect(servers, kServer, {.name_space = group->name_space}, config));
  for (uint32_t rank = 0; rank < kNumWorkers; ++rank) {
    ClientOptions options = {.name_space = group->name_space};
    if (!rule.empty()) options.rank = rank;
    group->keys.push_back(rule.empty() ? absl::StrCat("unrelated.", rank)
                                       : kKey);
    group->workers.emplace_back();
    ASSIGN_OR_RETURN(group->workers.back(),
                     Connect(servers, kServer, std::move(options), config));
    if (rule.empty() || rank == 0) {
      RETURN_IF_ERROR(group->owner->Init(group->keys.back(), group->value,
                                         OnExisting::kReplace));
    }
  }
  // A call is as long as the slowest of its workers takes: of a single one each
  // trial would say little.
  return Load{.call = [group] { return group->Push(); },
              .bytes = kNumWorkers * bytes,
              .server = server.pid,
              .least_calls = 3};
}

Row RoundRow(Servers* servers, const std::string& rule,
             const std::string& other_rule, int64_t bytes, double goal) {
  return {.name = absl::StrCat("round/", SizeText(bytes, kNumWorkers),
                               rule == "assign" ? "" : "/" + rule),
          .make_load = [=] { return GroupLoad(servers, rule, bytes); },
          .references = {{other_rule.empty() ? "unrelated" : other_rule,
                          [=] { return GroupLoad(servers, other_rule, bytes); },
                          goal}}};
}

// --- Memory of contributions that wait --------------------------------------

// Pushes keys in calls of some each, as the first of two workers.
absl::Status PushAsOneOfTwo(Client* client, int64_t num_keys, int64_t bytes) {
  constexpr int64_t kBytesPerCall = 16 * kMiB;
  ASSIGN_OR_RETURN(const Tensor value, MakeValues(bytes));
  std::vector<InitEntry> values;
  std::vector<PushEntry> contributions;
  for (int64_t i = 0; i < num_keys; ++i) {
    values.push_back({.key = KeyText(0, i), .tensor = value});
    contributions.push_back({.key = KeyText(0, i), .tensor = value});
    const int64_t gathered = static_cast<int64_t>(values.size()) * bytes;
    if (gathered < kBytesPerCall && i + 1 < num_keys) continue;
    RETURN_IF_ERROR(client->Init(std::exchange(values, {})));
    RETURN_IF_ERROR(
        client->Push(std::exchange(contributions, {}), {.step = 1}).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ResidentByCounted(Servers* servers, int64_t num_keys,
                                         int64_t bytes) {
  const std::string name = absl::StrCat("waiting-", num_keys);
  const std::string server_name = "tensorkv #" + name;
  ASSIGN_OR_RETURN(const ServerProcess server, servers->Get(server_name));
  const int64_t bytes_before = ResidentBytesOf(server.pid);
  ASSIGN_OR_RETURN(
      const std::shared_ptr<Client> client,
      Connect(
          servers, server_name, {.name_space = name, .rank = 0},
          {.mode = Mode::kSync, .num_workers = 2, .rule = {.name = "sgd"}}));
  RETURN_IF_ERROR(PushAsOneOfTwo(client.get(), num_keys, bytes));
  ASSIGN_OR_RETURN(const NamespaceStatus status,
                   client->DescribeNamespace(name));
  const double resident = ResidentBytesOf(server.pid) - bytes_before;
  const v1::MemoryUse& counted = status.memory();
  return resident /
         static_cast<double>(counted.values() + counted.state() +
                             counted.contributions() + counted.metadata());
}

Row WaitingRow(Servers* servers, int64_t num_keys, int64_t bytes) {
  return {.name = absl::StrCat("memory/waiting/", SizeText(bytes, num_keys)),
          .figure = [=] { return ResidentByCounted(servers, num_keys, bytes); },
          .most = 1.2};
}

}  // namespace

std::vector<Row> TrainingRows(Servers* servers) {
  struct Encoded {
    const char* compression;
    // Goals where encoding takes so little that pushes gain by it on loopback.
    double goal;
  };
  std::vector<Row> rows;
  for (const int64_t bytes : {kMiB, 16 * kMiB, 64 * kMiB}) {
    for (const char* const rule : {"sgd", "adam"}) {
      rows.push_back(RuleRow(servers, rule, bytes));
    }
    for (const auto& [compression, goal] :
         {Encoded{"2bit", 1}, Encoded{"f16", 1}, Encoded{"f16,feedback", 1},
          Encoded{"topk:0.01", 0}, Encoded{"dithering:4", 0}}) {
      rows.push_back(EncodedRow(servers, compression, bytes, goal));
    }
  }
  rows.push_back(RoundRow(servers, "assign", "", kMiB, 0));
  rows.push_back(RoundRow(servers, "assign", "", 64 * kMiB, 0.5));
  rows.push_back(RoundRow(servers, "sgd", "assign", 16 * kMiB, 0));
  // As messages and as streams.
  rows.push_back(WaitingRow(servers, 100'000, kKiB));
  rows.push_back(WaitingRow(servers, 16, 16 * kMiB));
  return rows;
}

}  // namespace tensorkv::bench
