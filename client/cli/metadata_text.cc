#include "client/cli/metadata_text.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/cli/plain_text.h"
#include "contract/choice_names.h"

namespace tensorkv {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::vector<size_t> ColumnWidths(const Rows& rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    if (row.size() > widths.size()) widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  return widths;
}

absl::string_view NameOf(WaitReason reason) {
  constexpr absl::string_view kNames[kNumWaitReasons] = {
      "keys",      "versions", "updates",         "rounds",
      "staleness", "barriers", "earlier attempts"};
  return kNames[static_cast<size_t>(reason)];
}

// Returns what an empty pattern stands for.
std::string PatternText(const std::string& pattern) {
  return pattern.empty() ? "*" : pattern;
}

std::string LeaseText(const WorkerStatus& status) {
  return absl::FormatDuration(
      absl::Trunc(status.lease_remaining, absl::Milliseconds(100)));
}

// Adds the rows that only some modes have.
void AddModeRows(const NamespaceConfig& config, Rows& rows) {
  if (config.max_workers > config.num_workers) {
    rows.push_back({"max workers:", absl::StrCat(config.max_workers)});
  }
  if (config.mode == Mode::kBounded) {
    rows.push_back({"staleness:", absl::StrCat(config.staleness)});
  }
  if (config.mode != Mode::kAsync) {
    rows.push_back(
        {"on worker loss:", std::string(NameOf(config.on_worker_loss))});
  }
  if (config.rescale_partial_rounds) {
    rows.push_back({"partial rounds:", "rescaled"});
  }
  if (config.aggregation != Aggregation::kSum) {
    rows.push_back(
        {"aggregation:",
         absl::StrCat(NameOf(config.aggregation),
                      config.trim_fraction == 0
                          ? ""
                          : absl::StrCat(" without ", config.trim_fraction,
                                         " at each end"))});
  }
  if (config.mirrored) rows.push_back({"mirrored:", "on every server"});
  if (config.quorum > 0) {
    rows.push_back(
        {"quorum:", absl::StrCat(config.quorum, " after ",
                                 absl::FormatDuration(config.quorum_grace))});
  }
}

// Only what the guard looks at, and has found.
void AddGuardRows(const NamespaceStatus& status, Rows& rows) {
  const GradientGuard& guard = status.config.gradient_guard;
  if (guard.on_non_finite != OnNonFinite::kApply) {
    rows.push_back({"non-finite:", std::string(NameOf(guard.on_non_finite))});
  }
  if (guard.max_norm > 0) {
    rows.push_back({"norms:", absl::StrCat(NameOf(guard.on_large_norm),
                                           " above ", guard.max_norm)});
  }
  if (guard.max_call_norm > 0) {
    rows.push_back(
        {"norms of calls:", absl::StrCat(NameOf(guard.on_large_norm), " above ",
                                         guard.max_call_norm)});
  }
  for (const GuardCounts& counts : status.guard_counts) {
    rows.push_back({counts.rank
                        ? absl::StrCat("guard, rank ", *counts.rank, ":")
                        : "guard, no rank:",
                    absl::StrCat(counts.not_finite, " not finite, ",
                                 counts.too_large, " too large")});
  }
}

void AddMemoryRows(const NamespaceStatus& status, Rows& rows) {
  const uint64_t budget = status.config.budget_bytes;
  rows.insert(
      rows.end(),
      {{"max open rounds:", absl::StrCat(status.config.max_open_rounds)},
       {"budget:", budget == 0 ? "the server's" : ByteText(budget)},
       {"keys:", absl::StrCat(status.num_keys)},
       {"values:", ByteText(status.memory.values)},
       {"state:", ByteText(status.memory.state)},
       {"contributions:", ByteText(status.memory.contributions)},
       {"metadata:", ByteText(status.memory.metadata)}});
  for (const DeviceMemoryUse& on : status.device_memory) {
    rows.push_back(
        {absl::StrCat("on ", on.device, ":"), ByteText(BytesOf(on.memory))});
  }
}

void AddCountRows(const NamespaceStatus& status, Rows& rows) {
  rows.insert(
      rows.end(),
      {{"updates applied:", absl::StrCat(status.updates_applied)},
       {"rounds open:", absl::StrCat(status.rounds_open)},
       {"rounds closed:", absl::StrCat(status.rounds_closed)},
       {"rounds failed:", absl::StrCat(status.rounds_failed)},
       {"calls waiting:", absl::StrCat(status.calls_waiting)},
       {"leases expired:", absl::StrCat(status.lease_expirations)},
       {"late pushes:", absl::StrCat(status.contributions_late)},
       {"repeated pushes:", absl::StrCat(status.contributions_duplicate)},
       {"fenced pushes:", absl::StrCat(status.contributions_fenced)},
       {"slowest lag steps:", absl::StrCat(status.slowest_lag)}});
}

// Only what calls have waited for.
void AddWaitRows(const NamespaceStatus& status, Rows& rows) {
  for (const WaitStatus& wait : status.waits) {
    if (wait.calls_waiting + wait.calls_ended == 0) continue;
    rows.push_back({absl::StrCat("waits for ", NameOf(wait.reason), ":"),
                    absl::StrCat(wait.calls_waiting, " now, ", wait.calls_ended,
                                 " ended, ", absl::FormatDuration(wait.waited),
                                 " in all")});
  }
}

}  // namespace

std::vector<std::string> Row(Columns columns, std::vector<std::string> row,
                             std::vector<std::string> more) {
  if (columns == Columns::kUsual) return row;
  row.insert(row.end(), std::make_move_iterator(more.begin()),
             std::make_move_iterator(more.end()));
  return row;
}

std::string ByteText(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double scaled = bytes / 1024.0;
  int unit = 0;
  for (; scaled >= 1024; ++unit) scaled /= 1024;
  return absl::StrFormat("%.1f %s", scaled, units[unit]);
}

uint64_t BytesOf(const MemoryUse& memory) {
  return memory.values + memory.state + memory.contributions + memory.metadata;
}

std::string TableText(Rows rows) {
  for (std::vector<std::string>& row : rows) {
    for (std::string& cell : row) cell = PlainText(cell);
  }
  const std::vector<size_t> widths = ColumnWidths(rows);
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i],
                      std::string(widths[i] - row[i].size() + 2, ' '));
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string KeyTable(const std::vector<KeyStatus>& keys, Columns columns) {
  Rows rows = {Row(columns, {"key", "dtype", "shape", "version", "size"},
                   {"state", "updates", "rule"})};
  for (const KeyStatus& status : keys) {
    rows.push_back(Row(
        columns,
        {status.key, std::string(NameOf(status.dtype)), status.shape.ToString(),
         absl::StrCat(status.version), ByteText(status.value_bytes)},
        {ByteText(status.state_bytes), absl::StrCat(status.update_count),
         status.rule.ToString()}));
  }
  return TableText(std::move(rows));
}

std::string KeyText(const KeyStatus& status) {
  Rows rows = {{"key:", status.key},
               {"dtype:", std::string(NameOf(status.dtype))},
               {"shape:", status.shape.ToString()},
               {"version:", absl::StrCat(status.version)},
               {"value:", ByteText(status.value_bytes)},
               {"state:", ByteText(status.state_bytes)},
               {"states:", absl::StrJoin(status.states, ", ")},
               {"rule:", status.rule.ToString()},
               {"update count:", absl::StrCat(status.update_count)}};
  const Hyperparameters& known = status.rule.hyperparameters;
  if (known.contains("learning_rate")) {
    rows.push_back({"next learning rate:", absl::StrCat(status.learning_rate)});
  }
  if (known.contains("weight_decay")) {
    rows.push_back({"next weight decay:", absl::StrCat(status.weight_decay)});
  }
  rows.insert(rows.end(),
              {{"lr_mult:", absl::StrCat(status.multipliers.learning_rate)},
               {"wd_mult:", absl::StrCat(status.multipliers.weight_decay)}});
  if (status.digest) {
    rows.push_back({"digest:", absl::StrFormat("%016x", *status.digest)});
  }
  return TableText(std::move(rows));
}

std::string NamespaceTable(const std::vector<NamespaceStatus>& namespaces,
                           Columns columns) {
  Rows rows = {Row(columns,
                   {"namespace", "mode", "workers", "keys", "size", "rule"},
                   {"live", "open", "waiting", "updates", "uid"})};
  for (const NamespaceStatus& status : namespaces) {
    rows.push_back(Row(
        columns,
        {status.name, std::string(NameOf(status.config.mode)),
         absl::StrCat(status.config.num_workers), absl::StrCat(status.num_keys),
         ByteText(BytesOf(status.memory)), status.config.rule.ToString()},
        {absl::StrCat(status.live_workers), absl::StrCat(status.rounds_open),
         absl::StrCat(status.calls_waiting),
         absl::StrCat(status.updates_applied),
         absl::StrFormat("%016x", status.uid)}));
  }
  return TableText(std::move(rows));
}

std::string CheckpointTable(const std::vector<CheckpointStatus>& checkpoints,
                            Columns columns) {
  Rows rows = {Row(
      columns, {"checkpoint", "time", "size", "written", "keys", "namespaces"},
      {"sequence", "made"})};
  for (const CheckpointStatus& status : checkpoints) {
    rows.push_back(Row(
        columns,
        {status.name,
         absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", status.create_time,
                          absl::UTCTimeZone()),
         ByteText(status.bytes), ByteText(status.written_bytes),
         absl::StrCat(status.num_keys), absl::StrJoin(status.namespaces, ",")},
        {absl::StrCat(status.sequence),
         status.automatic ? "by itself" : "by a call"}));
  }
  return TableText(std::move(rows));
}

std::string NamespaceText(const NamespaceStatus& status) {
  const NamespaceConfig& config = status.config;
  Rows rows = {{"namespace:", status.name},
               {"uid:", absl::StrFormat("%016x", status.uid)},
               {"revision:", absl::StrCat(status.revision)},
               {"mode:", std::string(NameOf(config.mode))},
               {"workers:", absl::StrCat(config.num_workers)}};
  AddModeRows(config, rows);
  AddMemoryRows(status, rows);
  AddCountRows(status, rows);
  AddWaitRows(status, rows);
  AddGuardRows(status, rows);
  for (const RuleBinding& binding : status.rules) {
    rows.push_back(
        {absl::StrCat("rule of ", PatternText(binding.key_pattern), ":"),
         binding.rule.ToString()});
  }
  return TableText(std::move(rows));
}

std::string StateText(const WorkerStatus& status) {
  if (status.is_live) return "live";
  return status.has_left ? "left" : "lost";
}

std::string WorkerTable(const std::vector<WorkerStatus>& workers,
                        Columns columns) {
  Step fastest = 0;
  for (const WorkerStatus& status : workers) {
    fastest = std::max(fastest, status.step);
  }
  Rows rows = {Row(columns,
                   {"rank", "worker", "epoch", "state", "step", "lease"},
                   {"behind"})};
  for (const WorkerStatus& status : workers) {
    rows.push_back(Row(columns,
                       {absl::StrCat(status.worker.rank), status.name,
                        absl::StrCat(status.worker.epoch), StateText(status),
                        absl::StrCat(status.step), LeaseText(status)},
                       {absl::StrCat(fastest - status.step)}));
  }
  return TableText(std::move(rows));
}

std::string ClusterTable(const std::vector<ClusterServerStatus>& servers,
                         Columns columns) {
  Rows rows = {Row(
      columns,
      {"server", "address", "live", "partitions", "to_restore", "keys", "used"},
      {"weight"})};
  for (const ClusterServerStatus& status : servers) {
    rows.push_back(Row(columns,
                       {status.server.name, status.server.address,
                        status.server.is_live ? "yes" : "no",
                        absl::StrCat(status.num_partitions),
                        absl::StrCat(status.num_to_restore),
                        status.num_keys ? absl::StrCat(*status.num_keys) : "?",
                        status.used_bytes ? ByteText(*status.used_bytes) : "?"},
                       {absl::StrCat(status.server.weight)}));
  }
  return TableText(std::move(rows));
}

std::string RuleTable(const std::vector<RuleBinding>& rules) {
  Rows rows = {{"pattern", "rule"}};
  for (const RuleBinding& binding : rules) {
    rows.push_back({PatternText(binding.key_pattern), binding.rule.ToString()});
  }
  return TableText(std::move(rows));
}

std::string MultipliersTable(const std::vector<MultipliersBinding>& bindings) {
  if (bindings.empty()) return "";
  Rows rows = {{"pattern", "lr_mult", "wd_mult"}};
  for (const MultipliersBinding& binding : bindings) {
    rows.push_back({PatternText(binding.key_pattern),
                    absl::StrCat(binding.multipliers.learning_rate),
                    absl::StrCat(binding.multipliers.weight_decay)});
  }
  return TableText(std::move(rows));
}

}  // namespace tensorkv
