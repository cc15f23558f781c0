#include "python/core/namespace_config.h"

#include <pybind11/stl.h>

#include <cstdint>

#include "contract/requests.h"
#include "python/core/seconds_of.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

NamespaceConfig MakeNamespaceConfig(
    const std::string& mode, uint32_t num_workers, uint32_t max_workers,
    uint32_t staleness, const std::string& on_worker_loss,
    bool rescale_partial_rounds, uint32_t quorum, double quorum_grace,
    uint32_t max_open_rounds, const std::string& aggregation,
    double trim_fraction, bool mirrored, const std::string& on_non_finite,
    double max_norm, double max_call_norm, const std::string& on_large_norm,
    uint64_t budget_bytes) {
  return {
      .mode = ByName<Mode>("mode", mode),
      .num_workers = num_workers,
      .max_workers = max_workers,
      .budget_bytes = budget_bytes,
      .staleness = staleness,
      .on_worker_loss = ByName<OnWorkerLoss>("on_worker_loss", on_worker_loss),
      .rescale_partial_rounds = rescale_partial_rounds,
      .quorum = quorum,
      .quorum_grace = SecondsOf("quorum_grace", quorum_grace),
      .max_open_rounds = max_open_rounds,
      .gradient_guard = {.on_non_finite = ByName<OnNonFinite>("on_non_finite",
                                                              on_non_finite),
                         .max_norm = max_norm,
                         .on_large_norm = ByName<OnLargeNorm>("on_large_norm",
                                                              on_large_norm),
                         .max_call_norm = max_call_norm},
      .aggregation = ByName<Aggregation>("aggregation", aggregation),
      .trim_fraction = trim_fraction,
      .mirrored = mirrored};
}

}  // namespace

void RegisterNamespaceConfig(py::module_& module) {
  py::class_<NamespaceConfig>(module, "NamespaceConfig")
      .def(py::init(&MakeNamespaceConfig), py::kw_only(), "mode"_a,
           "num_workers"_a, "max_workers"_a, "staleness"_a, "on_worker_loss"_a,
           "rescale_partial_rounds"_a, "quorum"_a, "quorum_grace"_a,
           "max_open_rounds"_a, "aggregation"_a, "trim_fraction"_a,
           "mirrored"_a, "on_non_finite"_a, "max_norm"_a, "max_call_norm"_a,
           "on_large_norm"_a, "budget_bytes"_a);
}

}  // namespace tensorkv::python
