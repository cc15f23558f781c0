#include "python/core/describe.h"

#include <pybind11/stl.h>

#include <string>

namespace tensorkv::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

py::tuple TupleOf(const Shape& shape) {
  py::tuple tuple(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) tuple[i] = shape.dimensions()[i];
  return tuple;
}

const char* NameOf(Mode mode) {
  switch (mode) {
    case Mode::kSync:
      return "sync";
    case Mode::kBounded:
      return "bounded";
    case Mode::kUnknown:
      return "unknown";
    case Mode::kAsync:
      break;
  }
  return "async";
}

py::dict Describe(const KeyStatus& key) {
  py::object digest = py::none();
  if (key.digest) digest = py::int_(*key.digest);
  return py::dict(
      "key"_a = key.key, "dtype"_a = std::string(tensorkv::NameOf(key.dtype)),
      "shape"_a = TupleOf(key.shape), "version"_a = key.version,
      "value_bytes"_a = key.value_bytes, "state_bytes"_a = key.state_bytes,
      "states"_a = key.states, "rule"_a = key.rule.ToString(),
      "device"_a = key.device, "digest"_a = digest);
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
    workers.append(
        py::dict("name"_a = worker.name, "rank"_a = worker.worker.rank,
                 "epoch"_a = worker.worker.epoch, "is_live"_a = worker.is_live,
                 "step"_a = worker.step));
  }
  py::dict rules;
  for (const RuleBinding& binding : status.rules) {
    rules[py::str(binding.key_pattern)] = binding.rule.ToString();
  }
  return py::dict("name"_a = status.name, "mode"_a = NameOf(status.config.mode),
                  "num_workers"_a = status.config.num_workers,
                  "max_workers"_a = status.config.max_workers,
                  "staleness"_a = status.config.staleness,
                  "live_workers"_a = status.live_workers, "workers"_a = workers,
                  "rules"_a = rules, "num_keys"_a = status.num_keys,
                  "revision"_a = status.revision,
                  "rounds_open"_a = status.rounds_open,
                  "rounds_closed"_a = status.rounds_closed,
                  "rounds_failed"_a = status.rounds_failed,
                  "calls_waiting"_a = status.calls_waiting);
}

}  // namespace tensorkv::python
