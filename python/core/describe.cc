#include "python/core/describe.h"

#include <pybind11/stl.h>

#include <string>
#include <type_traits>
#include <vector>

#include "absl/time/time.h"
#include "contract/choice_names.h"
#include "contract/duration.h"
#include "contract/proto_codec.h"
#include "contract/timestamp.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "python/core/arguments.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

py::tuple TupleOf(const google::protobuf::RepeatedField<int64_t>& numbers) {
  py::tuple tuple(numbers.size());
  for (int i = 0; i < numbers.size(); ++i) tuple[i] = numbers[i];
  return tuple;
}

std::vector<std::string> TextsOf(
    const google::protobuf::RepeatedPtrField<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

double SecondsIn(const google::protobuf::Duration& proto) {
  return absl::ToDoubleSeconds(DurationIn(proto));
}

template <typename Choice>
std::string NameTextOf(Choice choice) {
  return std::string(NameOf(choice));
}

}  // namespace

py::dict Describe(const v1::GuardCounts& counts) {
  py::object rank = py::none();
  if (counts.has_rank()) rank = py::int_(counts.rank());
  return py::dict("rank"_a = rank, "not_finite"_a = counts.not_finite(),
                  "too_large"_a = counts.too_large());
}

py::dict Describe(const WorkerStatus& worker) {
  return py::dict("name"_a = worker.name(), "rank"_a = worker.worker().rank(),
                  "epoch"_a = worker.worker().epoch(), "live"_a = worker.live(),
                  "left"_a = worker.left(), "step"_a = worker.step(),
                  "lease_remaining"_a = SecondsIn(worker.lease_remaining()));
}

py::dict Describe(const KeyStatus& key) {
  py::object digest = py::none();
  if (key.has_digest()) digest = py::int_(key.digest());
  return py::dict("key"_a = key.key(), "dtype"_a = NameTextOf(DTypeOf(key)),
                  "shape"_a = TupleOf(key.shape()), "version"_a = key.version(),
                  "value_bytes"_a = key.value_bytes(),
                  "state_bytes"_a = key.state_bytes(),
                  "states"_a = TextsOf(key.states()),
                  "rule"_a = FromProto(key.rule()).ToString(),
                  "update_count"_a = key.update_count(),
                  "learning_rate"_a = key.learning_rate(), "digest"_a = digest);
}

py::dict Describe(const NamespaceStatus& status) {
  py::dict rules;
  for (const v1::RuleBinding& binding : status.rules()) {
    rules[py::str(binding.key_pattern())] =
        FromProto(binding.rule()).ToString();
  }
  py::dict dict("name"_a = status.name(),
                "guard_counts"_a = DescribeAll(status.guard_counts()),
                "live_workers"_a = status.live_workers(),
                "workers"_a = DescribeAll(status.workers()), "rules"_a = rules,
                "num_keys"_a = status.num_keys(),
                "revision"_a = status.revision(),
                "rounds_open"_a = status.rounds_open(),
                "rounds_closed"_a = status.rounds_closed(),
                "rounds_failed"_a = status.rounds_failed(),
                "calls_waiting"_a = status.calls_waiting());
  // A status is checked when it comes.
  const NamespaceConfig config =
      FromProto(status.config()).value_or(NamespaceConfig());
  ForEachField(config,
               [&]<typename Field>(const char* name, const Field& field) {
                 if constexpr (std::is_enum_v<Field>) {
                   dict[name] = NameTextOf(field);
                 } else if constexpr (std::is_same_v<Field, absl::Duration>) {
                   dict[name] = absl::ToDoubleSeconds(field);
                 } else {
                   dict[name] = field;
                 }
               });
  return dict;
}

py::dict Describe(const CheckpointStatus& status) {
  return py::dict(
      "name"_a = status.name(),
      "created"_a = absl::ToDoubleSeconds(DecodeTime(status.create_time()) -
                                          absl::UnixEpoch()),
      "bytes"_a = status.bytes(), "written_bytes"_a = status.written_bytes(),
      "num_keys"_a = status.num_keys(),
      "namespaces"_a = TextsOf(status.namespaces()),
      "sequence"_a = status.sequence(), "automatic"_a = status.automatic());
}

py::dict Describe(const ServerStatus& status) {
  return py::dict("version"_a = status.version(),
                  "incarnation"_a = status.incarnation(),
                  "started"_a = status.start_time().seconds(),
                  "devices"_a = TextsOf(status.devices()),
                  "budget_bytes"_a = status.budget_bytes(),
                  "used_bytes"_a = status.used_bytes(),
                  "max_message_bytes"_a = status.max_message_bytes(),
                  "max_entries"_a = status.max_entries());
}

}  // namespace tensorkv::python
