// Metadata as text for people, in aligned columns.

#ifndef TENSORKV_CLIENT_CLI_METADATA_TEXT_H_
#define TENSORKV_CLIENT_CLI_METADATA_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/requests.h"

namespace tensorkv {

// A line per row, columns aligned to the left, two blanks between them.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

// A table with a line per key: key dtype shape version size device.
std::string KeyTable(const std::vector<KeyStatus>& keys);

// Everything about one key, a line per field.
std::string KeyText(const KeyStatus& status);

// A table with a line per namespace: name mode workers keys size rule.
std::string NamespaceTable(const std::vector<NamespaceStatus>& namespaces);

// Everything about one namespace, a line per field.
std::string NamespaceText(const NamespaceStatus& status);

// A table with a line per worker: rank name epoch live step lease.
std::string WorkerTable(const std::vector<WorkerStatus>& workers);

// What a server is and holds, a line per field.
std::string ServerText(const ServerStatus& status);

// A server of a cluster, and what it has.
struct ClusterServerStatus {
  ClusterServer server;
  uint64_t num_partitions = 0;
  // Those of them that it does not have yet, of a server that was lost.
  uint64_t num_to_restore = 0;
  // Nothing where it does not answer.
  std::optional<uint64_t> num_keys;
  std::optional<uint64_t> used_bytes;
};

// A table with a line per server: server address live partitions
// to_restore keys used.
std::string ClusterTable(const std::vector<ClusterServerStatus>& servers);

// A table with a line per checkpoint: name time size written keys
// namespaces.
std::string CheckpointTable(const std::vector<CheckpointStatus>& checkpoints);

// A table with a line per binding: pattern rule. The default's pattern is "*".
std::string RuleTable(const std::vector<RuleBinding>& rules);

// A table with a line per binding: pattern lr_mult wd_mult. It is empty if
// there are no multipliers.
std::string MultipliersTable(const std::vector<MultipliersBinding>& bindings);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_METADATA_TEXT_H_
