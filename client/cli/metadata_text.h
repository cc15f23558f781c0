// Metadata as text for people, in aligned columns.

#ifndef TENSORKV_CLIENT_CLI_METADATA_TEXT_H_
#define TENSORKV_CLIENT_CLI_METADATA_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/requests.h"

namespace tensorkv {

// Columns says which columns a table has: those that fit a terminal, or more.
enum class Columns { kUsual, kWide };

// "24 B", "1.5 GiB".
std::string ByteText(uint64_t bytes);

// Returns what a namespace takes of the memory, whatever for.
uint64_t BytesOf(const MemoryUse& memory);

// Returns a row of a table, with `more` if it is wide.
std::vector<std::string> Row(Columns columns, std::vector<std::string> row,
                             std::vector<std::string> more);

// Returns a line per row, columns aligned to the left, two blanks between them.
// Cells are PlainText.
std::string TableText(std::vector<std::vector<std::string>> rows);

// Returns a table with a line per key: key dtype shape version size; wide also
// state updates rule.
std::string KeyTable(const std::vector<KeyStatus>& keys,
                     Columns columns = Columns::kUsual);

// Everything about one key, a line per field.
std::string KeyText(const KeyStatus& status);

// Returns a table with a line per namespace: name mode workers keys size rule;
// wide also live open waiting updates uid.
std::string NamespaceTable(const std::vector<NamespaceStatus>& namespaces,
                           Columns columns = Columns::kUsual);

// Everything about one namespace, a line per field.
std::string NamespaceText(const NamespaceStatus& status);

// Returns a table with a line per worker: rank name epoch live step lease; wide
// also behind, how many steps behind the fastest.
std::string WorkerTable(const std::vector<WorkerStatus>& workers,
                        Columns columns = Columns::kUsual);

// A server of a cluster, and what it has.
struct ClusterServerStatus {
  ClusterServer server;
  uint64_t num_partitions = 0;
  // Counts those of them that it does not have yet, of a server that was lost.
  uint64_t num_to_restore = 0;
  // Nothing where it does not answer.
  std::optional<uint64_t> num_keys;
  std::optional<uint64_t> used_bytes;
};

// Returns a table with a line per server: server address live partitions
// to_restore keys used; wide also weight.
std::string ClusterTable(const std::vector<ClusterServerStatus>& servers,
                         Columns columns = Columns::kUsual);

// Returns a table with a line per checkpoint: name time size written keys
// namespaces; wide also sequence made, by whom.
std::string CheckpointTable(const std::vector<CheckpointStatus>& checkpoints,
                            Columns columns = Columns::kUsual);

// Returns a table with a line per binding: pattern rule. The default's pattern
// is "*".
std::string RuleTable(const std::vector<RuleBinding>& rules);

// Returns a table with a line per binding: pattern lr_mult wd_mult. It is empty
// if there are no multipliers.
std::string MultipliersTable(const std::vector<MultipliersBinding>& bindings);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_METADATA_TEXT_H_
