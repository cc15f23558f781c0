// Declares which keys a command is for.

#ifndef TENSORKV_CLIENT_CLI_KEY_SELECTION_H_
#define TENSORKV_CLIENT_CLI_KEY_SELECTION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/invocation.h"
#include "contract/requests.h"
#include "contract/snapshot_references.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tensorkv {

// Selects keys by their names, or all of those that begin with a prefix or are
// like a glob.
struct KeySelection {
  std::vector<std::string> keys;
  std::string prefix;
  std::string pattern;

  // Returns whether it names no keys, but says what they are like.
  bool is_listed() const { return !prefix.empty() || !pattern.empty(); }

  // Returns what the names of the keys, which are listed, begin with.
  absl::string_view common_prefix() const;

  // Returns whether a key that begins so is one of those that are listed.
  bool Matches(absl::string_view key) const;
};

// Adds --prefix and --pattern. `selection` outlives the command.
void AddKeyFilters(CLI::App& command, KeySelection& selection);

// Adds the argument "keys", and what to give instead of it.
void AddKeySelection(CLI::App& command, KeySelection& selection);

// Returns the keys that begin with the prefix, or are like the pattern, or all:
// those of now, or of a snapshot. Errors: those of List.
absl::StatusOr<std::vector<KeyStatus>> ListSelected(
    const KeySelection& selection, Client& client,
    const std::optional<SnapshotReference>& at = std::nullopt);

// Returns the names of the selected keys.
// Errors: UsageError where nothing selects any, and those of List.
absl::StatusOr<std::vector<std::string>> KeysToUse(
    const KeySelection& selection, Client& client,
    const std::optional<SnapshotReference>& at = std::nullopt);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_KEY_SELECTION_H_
