// The fields of a namespace's configuration, by their names in the contract.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_CONFIG_FIELDS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_CONFIG_FIELDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "contract/namespace_config.h"

namespace tensorkv {

// Says which fields are meant: all, or those that stay as they were when the
// namespace was created.
enum class ConfigFields { kAll, kFixed };

// Checks that two configurations of the namespace of that name have these
// fields in common. Messages begin with `subject`. Errors: FailedPrecondition
// (EXISTS_DIFFERENTLY), which says of each field what was expected and what
// came.
absl::Status CheckSameConfig(absl::string_view subject,
                             absl::string_view name_space,
                             const NamespaceConfig& expected,
                             const NamespaceConfig& actual, ConfigFields which);

// Returns `quorum=3 quorum_grace=500ms`: the fields of `to` that differ from
// those of `from`.
std::string TextOfChanges(const NamespaceConfig& from,
                          const NamespaceConfig& to);

// Checks that `paths`, of an update_mask, name fields that may change. Errors:
// InvalidArgument, with those that do not.
absl::Status CheckUpdateMask(absl::Span<const std::string> paths);

// Copies the fields that `paths` name, and touches no other.
// REQUIRES: CheckUpdateMask is OK.
void CopyFields(absl::Span<const std::string> paths,
                const NamespaceConfig& from, NamespaceConfig& to);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_CONFIG_FIELDS_H_
