// What Python sees of the snapshots of a Store.

#include <pybind11/stl.h>

#include "contract/duration.h"
#include "python/core/arguments.h"
#include "python/core/describe.h"
#include "python/core/snapshot_arguments.h"
#include "python/core/store.h"

namespace tensorkv::python {

namespace py = pybind11;

void Store::RegisterSnapshots(py::class_<Store>& store) {
  store
      .def("create_snapshot",
           [](Store& store, const PublishFields& fields) {
             const auto request = SnapshotWanted<CreateSnapshotRequest>(fields);
             return Describe(store.Call(
                 [=](Client client) { return client.CreateSnapshot(request); },
                 /*may_wait=*/true));
           })
      .def("list_snapshots",
           [](Store& store, const std::string& series_prefix) {
             return DescribeAll(store.Call([=](Client client) {
               return client.ListAllSnapshots(series_prefix);
             }));
           })
      .def(
          "describe_snapshot",
          [](Store& store, const AtFields& at) {
            DescribeSnapshotRequest request;
            *request.mutable_at() = ReferenceOf(at);
            return Describe(store.Call(
                [=](Client client) { return client.DescribeSnapshot(request); },
                /*may_wait=*/true));
          })
      .def("delete_snapshot",
           [](Store& store, const std::string& series,
              std::optional<uint64_t> number) {
             DeleteSnapshotRequest request;
             request.set_series(series);
             if (number) request.set_number(*number);
             return store
                 .Call([=](Client client) {
                   return client.DeleteSnapshot(request);
                 })
                 .num_deleted();
           })
      .def("lease_snapshot", [](Store& store, const AtFields& at,
                                const std::string& lease, double duration) {
        LeaseSnapshotRequest request;
        *request.mutable_at() = ReferenceOf(at);
        request.set_lease(lease);
        EncodeDuration(SecondsOf("duration", duration),
                       request.mutable_duration());
        return store
            .Call([=](Client client) { return client.LeaseSnapshot(request); },
                  /*may_wait=*/true)
            .number();
      });
}

}  // namespace tensorkv::python
