// Turns what a server says of itself and of what it has into dicts.

#ifndef TENSORKV_PYTHON_CORE_DESCRIBE_H_
#define TENSORKV_PYTHON_CORE_DESCRIBE_H_

#include <pybind11/pybind11.h>

#include "contract/requests.h"

namespace tensorkv::python {

// Return the dicts that Python's callers get. REQUIRES: the GIL.
pybind11::dict Describe(const KeyStatus& key);
pybind11::dict Describe(const v1::GuardCounts& counts);
pybind11::dict Describe(const WorkerStatus& worker);
pybind11::dict Describe(const NamespaceStatus& status);
pybind11::dict Describe(const CheckpointStatus& status);
pybind11::dict Describe(const v1::SnapshotLease& lease);
pybind11::dict Describe(const v1::SnapshotStatus& status);
pybind11::dict Describe(const DescribeSnapshotReply& reply);
pybind11::dict Describe(const CreateSnapshotReply& reply);
pybind11::dict Describe(const PublishedSnapshot& published);
pybind11::dict Describe(const ServerStatus& status);
pybind11::dict Describe(const v1::StepContribution& contribution);
pybind11::dict Describe(const v1::StepContributors& list);
pybind11::dict Describe(const v1::StepFailure& failure);
pybind11::dict Describe(const v1::StepWorker& worker);
pybind11::dict Describe(const v1::StepRecord& record);

template <typename Statuses>
pybind11::list DescribeAll(const Statuses& all) {
  pybind11::list list;
  for (const auto& each : all) list.append(Describe(each));
  return list;
}

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_DESCRIBE_H_
