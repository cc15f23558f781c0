// What Python says of snapshots, as messages.

#ifndef TENSORKV_PYTHON_CORE_SNAPSHOT_ARGUMENTS_H_
#define TENSORKV_PYTHON_CORE_SNAPSHOT_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "contract/duration.h"
#include "contract/snapshot_references.h"
#include "python/core/arguments.h"
#include "tensor/dtype.h"

namespace tensorkv::python {

// Holds the fields of a tensorkv.At: series, number, at_least.
using AtFields =
    std::tuple<std::string, std::optional<uint64_t>, std::optional<uint64_t>>;

// Holds the fields of a tensorkv.PublishAs, in their order.
using PublishFields =
    std::tuple<std::string, std::optional<uint64_t>, std::optional<uint64_t>,
               std::vector<std::string>, std::map<std::string, std::string>,
               std::optional<double>, std::optional<uint32_t>, std::string,
               std::optional<std::pair<uint32_t, uint32_t>>>;

inline SnapshotReference ReferenceOf(const AtFields& at) {
  const auto& [series, number, at_least] = at;
  if (number) return SnapshotOf(series, *number);
  if (at_least) return SnapshotAtLeast(series, *at_least);
  return LatestSnapshot(series);
}

inline std::optional<SnapshotReference> ReferenceOf(
    const std::optional<AtFields>& at) {
  if (!at) return std::nullopt;
  return ReferenceOf(*at);
}

// Returns a PublishAs, or a CreateSnapshotRequest, with these fields; a
// keep_last of 0 stands for all, a dtype without a name for none. Throws
// StatusError.
template <typename Message>
Message SnapshotWanted(const PublishFields& fields) {
  const auto& [series, number, expected_latest, prefixes, metadata,
               time_to_live, keep_last, dtype, part] = fields;
  Message message;
  message.set_series(series);
  if (number) message.set_number(*number);
  if (expected_latest) message.set_expected_latest(*expected_latest);
  message.mutable_prefixes()->Add(prefixes.begin(), prefixes.end());
  message.mutable_metadata()->insert(metadata.begin(), metadata.end());
  if (time_to_live) {
    EncodeDuration(SecondsOf("time_to_live", *time_to_live),
                   message.mutable_time_to_live());
  }
  if (keep_last)
    message.set_keep_last(*keep_last > 0 ? *keep_last : UINT32_MAX);
  if (!dtype.empty()) {
    message.set_dtype(static_cast<v1::DType>(ValueOrThrow(ParseDType(dtype))));
  }
  if constexpr (std::is_same_v<Message, PublishAs>) {
    if (!part) return message;
    message.mutable_part()->set_index(part->first);
    message.mutable_part()->set_count(part->second);
  }
  return message;
}

inline std::optional<PublishAs> SnapshotWanted(
    const std::optional<PublishFields>& fields) {
  if (!fields) return std::nullopt;
  return SnapshotWanted<PublishAs>(*fields);
}

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_SNAPSHOT_ARGUMENTS_H_
