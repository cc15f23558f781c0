#include "python/core/describe.h"

#include <pybind11/stl.h>

#include <string>

#include "absl/time/time.h"
#include "contract/choice_names.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

py::tuple TupleOf(const Shape& shape) {
  py::tuple tuple(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) tuple[i] = shape.dimensions()[i];
  return tuple;
}

template <typename Choice>
std::string NameTextOf(Choice choice) {
  return std::string(NameOf(choice));
}

py::list Describe(const std::vector<GuardCounts>& counts) {
  py::list list;
  for (const GuardCounts& each : counts) {
    list.append(py::dict("rank"_a = each.rank, "not_finite"_a = each.not_finite,
                         "too_large"_a = each.too_large));
  }
  return list;
}

py::dict Describe(const KeyStatus& key) {
  py::object digest = py::none();
  if (key.digest) digest = py::int_(*key.digest);
  return py::dict("key"_a = key.key, "dtype"_a = NameTextOf(key.dtype),
                  "shape"_a = TupleOf(key.shape), "version"_a = key.version,
                  "value_bytes"_a = key.value_bytes,
                  "state_bytes"_a = key.state_bytes, "states"_a = key.states,
                  "rule"_a = key.rule.ToString(),
                  "update_count"_a = key.update_count,
                  "learning_rate"_a = key.learning_rate, "digest"_a = digest);
}

}  // namespace

py::list Describe(const std::vector<KeyStatus>& keys) {
  py::list list;
  for (const KeyStatus& key : keys) list.append(Describe(key));
  return list;
}

py::dict Describe(const NamespaceStatus& status) {
  py::list workers;
  for (const WorkerStatus& worker : status.workers) {
    workers.append(py::dict(
        "name"_a = worker.name, "rank"_a = worker.worker.rank,
        "epoch"_a = worker.worker.epoch, "is_live"_a = worker.is_live,
        "has_left"_a = worker.has_left, "step"_a = worker.step,
        "lease_remaining"_a = absl::ToDoubleSeconds(worker.lease_remaining)));
  }
  py::dict rules;
  for (const RuleBinding& binding : status.rules) {
    rules[py::str(binding.key_pattern)] = binding.rule.ToString();
  }
  const NamespaceConfig& config = status.config;
  const GradientGuard& guard = config.gradient_guard;
  return py::dict(
      "name"_a = status.name, "mode"_a = NameTextOf(config.mode),
      "num_workers"_a = config.num_workers,
      "max_workers"_a = config.max_workers, "staleness"_a = config.staleness,
      "on_worker_loss"_a = NameTextOf(config.on_worker_loss),
      "rescale_partial_rounds"_a = config.rescale_partial_rounds,
      "quorum"_a = config.quorum,
      "quorum_grace"_a = absl::ToDoubleSeconds(config.quorum_grace),
      "max_open_rounds"_a = config.max_open_rounds,
      "aggregation"_a = NameTextOf(config.aggregation),
      "trim_fraction"_a = config.trim_fraction, "mirrored"_a = config.mirrored,
      "on_non_finite"_a = NameTextOf(guard.on_non_finite),
      "max_norm"_a = guard.max_norm, "max_call_norm"_a = guard.max_call_norm,
      "on_large_norm"_a = NameTextOf(guard.on_large_norm),
      "budget_bytes"_a = config.budget_bytes,
      "guard_counts"_a = Describe(status.guard_counts),
      "live_workers"_a = status.live_workers, "workers"_a = workers,
      "rules"_a = rules, "num_keys"_a = status.num_keys,
      "revision"_a = status.revision, "rounds_open"_a = status.rounds_open,
      "rounds_closed"_a = status.rounds_closed,
      "rounds_failed"_a = status.rounds_failed,
      "calls_waiting"_a = status.calls_waiting);
}

py::dict Describe(const CheckpointStatus& status) {
  return py::dict(
      "name"_a = status.name,
      "created"_a =
          absl::ToDoubleSeconds(status.create_time - absl::UnixEpoch()),
      "bytes"_a = status.bytes, "written_bytes"_a = status.written_bytes,
      "num_keys"_a = status.num_keys, "namespaces"_a = status.namespaces,
      "sequence"_a = status.sequence, "automatic"_a = status.automatic);
}

py::dict Describe(const ServerStatus& status) {
  return py::dict(
      "version"_a = status.version, "incarnation"_a = status.incarnation,
      "started"_a = status.start_unix_seconds, "devices"_a = status.devices,
      "budget_bytes"_a = status.budget_bytes,
      "used_bytes"_a = status.used_bytes,
      "max_message_bytes"_a = status.max_message_bytes,
      "max_entries"_a = status.max_entries);
}

}  // namespace tensorkv::python
