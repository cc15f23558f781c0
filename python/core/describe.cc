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

std::vector<uint32_t> RanksOf(
    const google::protobuf::RepeatedField<uint32_t>& ranks) {
  return {ranks.begin(), ranks.end()};
}

double SecondsSinceEpoch(const google::protobuf::Timestamp& proto) {
  return absl::ToDoubleSeconds(DecodeTime(proto) - absl::UnixEpoch());
}

double SecondsIn(const google::protobuf::Duration& proto) {
  return absl::ToDoubleSeconds(DurationIn(proto));
}

// Returns `number`, or None where it is not there.
py::object OptionalNumber(bool is_there, uint64_t number) {
  if (is_there) return py::int_(number);
  return py::none();
}

template <typename Choice>
std::string NameTextOf(Choice choice) {
  return std::string(NameOf(choice));
}

}  // namespace

py::dict Describe(const v1::GuardCounts& counts) {
  return py::dict("rank"_a = OptionalNumber(counts.has_rank(), counts.rank()),
                  "not_finite"_a = counts.not_finite(),
                  "too_large"_a = counts.too_large());
}

py::dict Describe(const WorkerStatus& worker) {
  return py::dict("name"_a = worker.name(), "rank"_a = worker.worker().rank(),
                  "epoch"_a = worker.worker().epoch(), "live"_a = worker.live(),
                  "left"_a = worker.left(), "step"_a = worker.step(),
                  "lease_remaining"_a = SecondsIn(worker.lease_remaining()));
}

py::dict Describe(const KeyStatus& key) {
  return py::dict("key"_a = key.key(), "dtype"_a = NameTextOf(DTypeOf(key)),
                  "shape"_a = TupleOf(key.shape()), "version"_a = key.version(),
                  "value_bytes"_a = key.value_bytes(),
                  "state_bytes"_a = key.state_bytes(),
                  "states"_a = TextsOf(key.states()),
                  "rule"_a = key.has_rule() ? FromProto(key.rule()).ToString()
                                            : std::string(),
                  "update_count"_a = key.update_count(),
                  "learning_rate"_a = key.learning_rate(),
                  "digest"_a = OptionalNumber(key.has_digest(), key.digest()));
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
                "calls_waiting"_a = status.calls_waiting(),
                "num_snapshots"_a = status.num_snapshots());
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
      "created"_a = SecondsSinceEpoch(status.create_time()),
      "bytes"_a = status.bytes(), "written_bytes"_a = status.written_bytes(),
      "num_keys"_a = status.num_keys(),
      "namespaces"_a = TextsOf(status.namespaces()),
      "sequence"_a = status.sequence(), "automatic"_a = status.automatic());
}

py::dict Describe(const v1::SnapshotLease& lease) {
  return py::dict("name"_a = lease.name(), "caller"_a = lease.caller(),
                  "time_left"_a = SecondsIn(lease.time_left()));
}

py::dict Describe(const v1::SnapshotStatus& status) {
  py::object time_left = py::none();
  if (status.has_time_left()) {
    time_left = py::float_(SecondsIn(status.time_left()));
  }
  py::object dtype = py::none();
  if (status.dtype() != v1::DTYPE_UNSPECIFIED) {
    const absl::StatusOr<DType> known = DTypeFromNumber(status.dtype());
    if (known.ok()) dtype = py::str(std::string(NameOf(*known)));
  }
  py::dict metadata;
  for (const auto& [name, text] : status.metadata()) {
    metadata[py::str(name)] = text;
  }
  return py::dict(
      "series"_a = status.series(), "number"_a = status.number(),
      "revision"_a = status.revision(),
      "created"_a = SecondsSinceEpoch(status.create_time()),
      "time_left"_a = time_left, "metadata"_a = metadata,
      "prefixes"_a = TextsOf(status.prefixes()),
      "num_keys"_a = OptionalNumber(status.has_num_keys(), status.num_keys()),
      "bytes"_a = OptionalNumber(status.has_bytes(), status.bytes()),
      "num_leases"_a = status.num_leases(), "dtype"_a = dtype,
      "num_parts"_a = status.num_parts());
}

py::dict Describe(const DescribeSnapshotReply& reply) {
  py::dict dict = Describe(reply.snapshot());
  dict["leases"] = DescribeAll(reply.leases());
  dict["retained_bytes"] = reply.retained_bytes();
  dict["keep_last"] = reply.keep_last();
  return dict;
}

py::dict Describe(const CreateSnapshotReply& reply) {
  return py::dict(
      "number"_a = reply.number(), "revision"_a = reply.revision(),
      "num_keys"_a = OptionalNumber(reply.has_num_keys(), reply.num_keys()),
      "bytes"_a = OptionalNumber(reply.has_bytes(), reply.bytes()));
}

py::dict Describe(const PublishedSnapshot& published) {
  return py::dict("number"_a = published.number,
                  "revision"_a = published.revision,
                  "parts_missing"_a = published.parts_missing);
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

py::dict Describe(const v1::StepContribution& contribution) {
  py::object weight = py::none();
  if (contribution.has_weight()) weight = py::float_(contribution.weight());
  return py::dict(
      "rank"_a = contribution.rank(),
      "carried_from"_a = OptionalNumber(contribution.carried_from() != 0,
                                        contribution.carried_from()),
      "skipped"_a = contribution.skipped(), "weight"_a = weight);
}

py::dict Describe(const v1::StepContributors& list) {
  return py::dict("contributions"_a = DescribeAll(list.contributions()),
                  "missing"_a = RanksOf(list.missing()),
                  "num_keys"_a = list.num_keys(),
                  "keys"_a = TextsOf(list.keys()));
}

py::dict Describe(const v1::StepFailure& failure) {
  return py::dict(
      "reason"_a = failure.reason(), "ranks"_a = RanksOf(failure.ranks()),
      "came"_a = RanksOf(failure.came()), "num_rounds"_a = failure.num_rounds(),
      "keys"_a = TextsOf(failure.keys()));
}

py::dict Describe(const v1::StepWorker& worker) {
  return py::dict("rank"_a = worker.rank(), "name"_a = worker.name(),
                  "late_refused"_a = worker.late_refused(),
                  "late_carried"_a = worker.late_carried(),
                  "late_taken"_a = worker.late_taken(),
                  "late_dropped"_a = worker.late_dropped(),
                  "duplicates_refused"_a = worker.duplicates_refused(),
                  "guard_clipped"_a = worker.guard_clipped(),
                  "guard_skipped"_a = worker.guard_skipped(),
                  "guard_refused"_a = worker.guard_refused(),
                  "greatest_norm"_a = worker.greatest_norm());
}

py::dict Describe(const v1::StepRecord& record) {
  py::object last_end = py::none();
  if (record.has_last_end_time()) {
    last_end = py::float_(SecondsSinceEpoch(record.last_end_time()));
  }
  return py::dict("step"_a = record.step(), "last_end"_a = last_end,
                  "rounds_closed"_a = record.rounds_closed(),
                  "rounds_failed"_a = record.rounds_failed(),
                  "contributors"_a = DescribeAll(record.contributors()),
                  "rounds_unlisted"_a = record.rounds_unlisted(),
                  "failures"_a = DescribeAll(record.failures()),
                  "failures_unlisted"_a = record.failures_unlisted(),
                  "workers"_a = DescribeAll(record.workers()));
}

}  // namespace tensorkv::python
