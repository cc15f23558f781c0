#include "client/cli/key_selection.h"

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "client/cli/usage_error.h"

namespace tensorkv {
namespace {

// Returns what is wrong with a pattern, or "".
std::string PatternError(const std::string& pattern) {
  if (pattern.size() <= kMaxPatternBytes) return "";
  return absl::StrCat("expected at most ", kMaxPatternBytes, " bytes, got ",
                      pattern.size());
}

}  // namespace

absl::string_view KeySelection::common_prefix() const {
  if (pattern.empty()) return prefix;
  return absl::string_view(pattern).substr(0, pattern.find_first_of("*?"));
}

bool KeySelection::Matches(absl::string_view key) const {
  if (!pattern.empty()) return Glob(pattern).Matches(key);
  return absl::StartsWith(key, prefix);
}

void AddKeyFilters(CLI::App& command, KeySelection& selection) {
  CLI::Option* const prefix = command.add_option(
      "-p,--prefix", selection.prefix, "Only keys that begin like this");
  command
      .add_option("--pattern", selection.pattern,
                  "Only keys like this glob, as '*.bias'")
      ->check(PatternError)
      ->excludes(prefix);
}

void AddKeySelection(CLI::App& command, KeySelection& selection) {
  command.add_option("keys", selection.keys,
                     "Keys; all that --prefix or --pattern are for, without");
  AddKeyFilters(command, selection);
}

absl::StatusOr<std::vector<KeyStatus>> ListSelected(
    const KeySelection& selection, Client& client,
    const std::optional<SnapshotReference>& at) {
  ASSIGN_OR_RETURN(std::vector<KeyStatus> statuses,
                   client.ListAll(std::string(selection.common_prefix()), at));
  std::erase_if(statuses, [&](const KeyStatus& status) {
    return !selection.Matches(status.key());
  });
  return statuses;
}

absl::StatusOr<std::vector<std::string>> KeysToUse(
    const KeySelection& selection, Client& client,
    const std::optional<SnapshotReference>& at) {
  if (selection.keys.empty() != selection.is_listed()) {
    return UsageError("expected keys, --prefix or --pattern, one of them");
  }
  if (!selection.keys.empty()) return selection.keys;
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> statuses,
                   ListSelected(selection, client, at));
  std::vector<std::string> found;
  for (const KeyStatus& status : statuses) found.push_back(status.key());
  return found;
}

}  // namespace tensorkv
