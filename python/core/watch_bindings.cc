// What Python sees of the watches of a Store.

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

#include "contract/duration.h"
#include "python/core/arguments.h"
#include "python/core/store.h"

namespace tensorkv::python {

namespace py = pybind11;

namespace {

py::tuple TupleOf(const v1::Change& change) {
  const bool is_key = change.series().empty();
  const auto text = [](const std::string& name, bool is_there) -> py::object {
    if (!is_there) return py::none();
    return py::str(name);
  };
  return py::make_tuple(text(change.key(), is_key), change.version(),
                        change.deleted(), change.revision(),
                        text(change.series(), !is_key), change.number());
}

}  // namespace

void Store::RegisterWatches(py::class_<Store>& store) {
  // Returns the changes, and the token of after them.
  store.def("watch", [](Store& store, const std::optional<std::string>& prefix,
                        const std::optional<std::string>& key,
                        const std::optional<std::string>& series, bool initial,
                        const py::bytes& token, double interval,
                        double max_wait) {
    WatchRequest request;
    if (prefix) request.set_prefix(*prefix);
    if (key) request.set_key(*key);
    if (series) request.set_series(*series);
    request.set_initial(initial);
    request.set_token(std::string(token));
    EncodeDuration(SecondsOf("interval", interval), request.mutable_interval());
    EncodeDuration(SecondsOf("max_wait", max_wait), request.mutable_max_wait());
    const WatchReply reply = store.Call(
        [=](Client client) { return client.Call(request); }, /*may_wait=*/true);
    py::list changes;
    for (const v1::Change& each : reply.changes()) {
      changes.append(TupleOf(each));
    }
    return py::make_tuple(std::move(changes), py::bytes(reply.token()));
  });
}

}  // namespace tensorkv::python
