#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/key_selection.h"
#include "client/internal/calls/next_page.h"
#include "contract/requests.h"

namespace tensorkv {

namespace {

constexpr uint64_t kKeysOfPage = 1000;

struct KeyFlags {
  KeySelection selection;
  bool compute_digests = false;
  bool allow_missing = false;
  uint64_t limit = 0;
};

// Prints each page when it comes, so that a server of a million keys answers at
// once.
absl::Status RunLs(const KeyFlags& flags, Invocation& invocation) {
  const KeySelection& selection = flags.selection;
  uint64_t num_left = flags.limit == 0 ? UINT64_MAX : flags.limit;
  ListRequest request;
  request.set_prefix(std::string(selection.common_prefix()));
  do {
    // A pattern may leave out all but the last of a page.
    request.set_page_size(static_cast<uint32_t>(
        selection.pattern.empty() ? std::min(num_left, kKeysOfPage)
                                  : kKeysOfPage));
    ASSIGN_OR_RETURN(const ListReply page, invocation.client.List(request));
    std::vector<KeyStatus> keys;
    for (const KeyStatus& key : page.keys()) {
      if (keys.size() < num_left && selection.Matches(key.key())) {
        keys.push_back(key);
      }
    }
    invocation.PrintTable(keys,
                          {"key", "dtype", "shape", "version", "value_bytes"},
                          /*with_header=*/request.page_token().empty());
    num_left -= keys.size();
    RETURN_IF_ERROR(NextPage(page.next_page_token(), request));
  } while (!request.page_token().empty() && num_left > 0 && invocation.out);
  return absl::OkStatus();
}

absl::Status RunStat(const KeyFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                   KeysToUse(flags.selection, invocation.client));
  if (keys.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> statuses,
                   invocation.client.Stat(keys, flags.compute_digests));
  for (const KeyStatus& status : statuses) invocation.Print(status);
  return absl::OkStatus();
}

absl::Status RunRm(const KeyFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                   KeysToUse(flags.selection, invocation.client));
  DeleteReply deleted;
  if (!keys.empty()) {
    // It is no error that somebody else has removed a key since it was listed.
    ASSIGN_OR_RETURN(
        const uint64_t num_deleted,
        invocation.client.Delete(
            keys, flags.allow_missing || flags.selection.is_listed()));
    deleted.set_num_deleted(num_deleted);
  }
  invocation.Print(deleted);
  return absl::OkStatus();
}

}  // namespace

void AddKeyCommands(CLI::App& app, Action& action) {
  auto flags = std::make_shared<KeyFlags>();
  const auto add = [&](const char* name, const char* help, auto run) {
    CLI::App* command = app.add_subcommand(name, help);
    OnRun(*command, action, flags, run);
    return command;
  };

  CLI::App* ls = add("ls", "List keys", RunLs);
  AddKeyFilters(*ls, flags->selection);
  ls->add_option("-l,--limit", flags->limit, "At most so many; 0: all")
      ->check(CLI::NonNegativeNumber);

  CLI::App* stat = add("stat", "Print all metadata of keys", RunStat);
  AddKeySelection(*stat, flags->selection);
  stat->add_flag("-d,--digest", flags->compute_digests,
                 "Also XXH3 of the values");

  CLI::App* rm = add("rm", "Remove keys", RunRm);
  AddKeySelection(*rm, flags->selection);
  rm->add_flag("--allow_missing", flags->allow_missing,
               "Keys that do not exist are no error");
}

}  // namespace tensorkv
