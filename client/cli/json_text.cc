#include "client/cli/json_text.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/cli/elements.h"
#include "contract/choice_names.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

using Json = nlohmann::ordered_json;

// Keys may be any bytes that the user typed; JSON is UTF-8.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ShapeJson(const Shape& shape) {
  Json json = Json::array();
  for (const int64_t dimension : shape.dimensions()) json.push_back(dimension);
  return json;
}

Json RuleObject(const RuleSpec& rule) {
  Json json = {{"rule", rule.name},
               {"hyperparameters", Json(rule.hyperparameters)},
               {"keep_master", rule.keep_master}};
  if (rule.schedule != ScheduleSpec()) {
    json["schedule"] = {{"name", rule.schedule.name},
                        {"arguments", Json(rule.schedule.arguments)},
                        {"steps", rule.schedule.steps}};
  }
  if (!rule.expression.empty()) json["expression"] = rule.expression;
  return json;
}

Json MultipliersObject(const Multipliers& multipliers) {
  return {{"learning_rate", multipliers.learning_rate},
          {"weight_decay", multipliers.weight_decay}};
}

std::string ElementJson(const Tensor& tensor, int64_t index) {
  const std::string text = ElementText(tensor, index);
  if (text == "nan") return "\"NaN\"";
  if (text == "inf") return "\"Infinity\"";
  return text == "-inf" ? "\"-Infinity\"" : text;
}

// An empty pattern stands for all keys.
std::string PatternText(absl::string_view key_pattern) {
  return key_pattern.empty() ? "*" : std::string(key_pattern);
}

Json GuardObject(const NamespaceStatus& status) {
  const GradientGuard& guard = status.config.gradient_guard;
  Json counts = Json::array();
  for (const GuardCounts& each : status.guard_counts) {
    counts.push_back({{"rank", each.rank ? Json(*each.rank) : Json()},
                      {"not_finite", each.not_finite},
                      {"too_large", each.too_large}});
  }
  return {{"on_non_finite", std::string(NameOf(guard.on_non_finite))},
          {"max_norm", guard.max_norm},
          {"max_call_norm", guard.max_call_norm},
          {"on_large_norm", std::string(NameOf(guard.on_large_norm))},
          {"counts", std::move(counts)}};
}

Json DevicesArray(const NamespaceStatus& status) {
  Json devices = Json::array();
  for (const DeviceMemoryUse& on : status.device_memory) {
    devices.push_back({{"device", on.device},
                       {"value_bytes", on.memory.values},
                       {"state_bytes", on.memory.state},
                       {"contribution_bytes", on.memory.contributions}});
  }
  return devices;
}

Json RulesArray(const NamespaceStatus& status) {
  Json rules = Json::array();
  for (const RuleBinding& binding : status.rules) {
    Json rule = {{"pattern", PatternText(binding.key_pattern)}};
    rule.update(RuleObject(binding.rule));
    rules.push_back(std::move(rule));
  }
  return rules;
}

Json NamespaceObject(const NamespaceStatus& status) {
  return {{"namespace", status.name},
          {"mode", std::string(NameOf(status.config.mode))},
          {"num_workers", status.config.num_workers},
          {"max_open_rounds", status.config.max_open_rounds},
          {"budget_bytes", status.config.budget_bytes},
          {"rules", RulesArray(status)},
          {"num_keys", status.num_keys},
          {"value_bytes", status.memory.values},
          {"state_bytes", status.memory.state},
          {"contribution_bytes", status.memory.contributions},
          {"metadata_bytes", status.memory.metadata},
          {"devices", DevicesArray(status)},
          {"updates_applied", status.updates_applied},
          {"rounds_open", status.rounds_open},
          {"rounds_closed", status.rounds_closed},
          {"rounds_failed", status.rounds_failed},
          {"calls_waiting", status.calls_waiting},
          {"max_workers", status.config.max_workers},
          {"staleness", status.config.staleness},
          {"on_worker_loss", std::string(NameOf(status.config.on_worker_loss))},
          {"rescale_partial_rounds", status.config.rescale_partial_rounds},
          {"aggregation", std::string(NameOf(status.config.aggregation))},
          {"trim_fraction", status.config.trim_fraction},
          {"mirrored", status.config.mirrored},
          {"quorum", status.config.quorum},
          {"quorum_grace_seconds",
           absl::ToDoubleSeconds(status.config.quorum_grace)},
          {"lease_expirations", status.lease_expirations},
          {"contributions_late", status.contributions_late},
          {"contributions_duplicate", status.contributions_duplicate},
          {"contributions_fenced", status.contributions_fenced},
          {"slowest_lag", status.slowest_lag},
          {"uid", absl::StrFormat("%016x", status.uid)},
          {"revision", status.revision},
          {"live_workers", status.live_workers},
          {"gradient_guard", GuardObject(status)}};
}

Json ServerObject(const ServerStatus& status) {
  Json devices = Json::array();
  for (const DeviceBudget& on : status.device_budgets) {
    devices.push_back({{"device", on.device},
                       {"budget_bytes", on.budget_bytes},
                       {"used_bytes", on.used_bytes}});
  }
  return {{"version", status.version},
          {"incarnation", absl::StrFormat("%016x", status.incarnation)},
          {"start_unix_seconds", status.start_unix_seconds},
          {"devices", status.devices},
          {"budget_bytes", status.budget_bytes},
          {"used_bytes", status.used_bytes},
          {"max_message_bytes", status.max_message_bytes},
          {"max_entries", status.max_entries},
          {"device_budgets", std::move(devices)}};
}

}  // namespace

std::string ValueJson(absl::string_view key, const Value& value) {
  std::string text = Dump({{"key", std::string(key)},
                           {"dtype", std::string(NameOf(value.tensor.dtype()))},
                           {"shape", ShapeJson(value.tensor.shape())},
                           {"version", value.version}});
  text.pop_back();
  text += ",\"values\":[";
  for (int64_t i = 0; i < value.tensor.num_elements(); ++i) {
    absl::StrAppend(&text, i > 0 ? "," : "", ElementJson(value.tensor, i));
  }
  text += "]}";
  return text;
}

std::string PushResultJson(absl::string_view key, const PushResult& result) {
  Json json = {{"key", std::string(key)}};
  if (result.step != 0) {
    json["step"] = result.step;
  } else {
    json["version"] = result.version;
  }
  return Dump(json);
}

std::string KeyStatusJson(const KeyStatus& status) {
  Json json = {{"key", status.key},
               {"dtype", std::string(NameOf(status.dtype))},
               {"shape", ShapeJson(status.shape)},
               {"version", status.version},
               {"value_bytes", status.value_bytes},
               {"state_bytes", status.state_bytes}};
  json.update(RuleObject(status.rule));
  json["update_count"] = status.update_count;
  json["multipliers"] = MultipliersObject(status.multipliers);
  const Hyperparameters& known = status.rule.hyperparameters;
  if (known.contains("learning_rate")) {
    json["next_learning_rate"] = status.learning_rate;
  }
  if (known.contains("weight_decay")) {
    json["next_weight_decay"] = status.weight_decay;
  }
  json["states"] = status.states;
  if (status.digest) json["digest"] = absl::StrFormat("%016x", *status.digest);
  return Dump(json);
}

std::string NamespaceStatusJson(const NamespaceStatus& status) {
  return Dump(NamespaceObject(status));
}

std::string ServerStatusJson(const ServerStatus& status) {
  return Dump(ServerObject(status));
}

std::string WorkerStatusJson(const WorkerStatus& status) {
  return Dump({{"rank", status.worker.rank},
               {"worker", status.name},
               {"epoch", status.worker.epoch},
               {"is_live", status.is_live},
               {"has_left", status.has_left},
               {"step", status.step},
               {"lease_remaining_seconds",
                absl::ToDoubleSeconds(status.lease_remaining)}});
}

std::string ClusterServerJson(const ClusterServerStatus& status) {
  const auto or_null = [](const std::optional<uint64_t>& number) {
    return number ? Json(*number) : Json();
  };
  return Dump({{"server", status.server.name},
               {"address", status.server.address},
               {"weight", status.server.weight},
               {"is_live", status.server.is_live},
               {"partitions", status.num_partitions},
               {"partitions_to_restore", status.num_to_restore},
               {"keys", or_null(status.num_keys)},
               {"used_bytes", or_null(status.used_bytes)}});
}

std::string ResizeJson(const ResizeClusterReply& reply) {
  Json servers = Json::array();
  for (const ClusterServer& server : reply.servers) {
    servers.push_back(server.name);
  }
  return Dump({{"servers", servers},
               {"partitions_to_move", reply.partitions_to_move},
               {"partitions_to_restore", reply.partitions_to_restore}});
}

std::string CheckpointJson(const CheckpointStatus& status) {
  return Dump({{"name", status.name},
               {"create_time",
                absl::FormatTime(status.create_time, absl::UTCTimeZone())},
               {"bytes", status.bytes},
               {"written_bytes", status.written_bytes},
               {"keys", status.num_keys},
               {"namespaces", status.namespaces},
               {"sequence", status.sequence},
               {"automatic", status.automatic}});
}

std::string RuleJson(absl::string_view key_pattern, const RuleSpec& rule) {
  Json json = {{"pattern", PatternText(key_pattern)}};
  json.update(RuleObject(rule));
  return Dump(json);
}

std::string MultipliersJson(const MultipliersBinding& binding) {
  return Dump({{"pattern", PatternText(binding.key_pattern)},
               {"multipliers", MultipliersObject(binding.multipliers)}});
}

}  // namespace tensorkv
