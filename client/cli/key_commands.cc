#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/usage_error.h"
#include "client/internal/calls/next_page.h"
#include "contract/requests.h"

namespace tensorkv {

absl::StatusOr<std::vector<std::string>> KeysToUse(
    const std::vector<std::string>& keys, const std::string& prefix,
    Invocation& invocation, const std::optional<SnapshotReference>& at) {
  if (keys.empty() == prefix.empty()) {
    return UsageError("expected keys or --prefix, one of them");
  }
  if (!keys.empty()) return keys;
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> statuses,
                   invocation.client.ListAll(prefix, at));
  std::vector<std::string> found;
  for (const KeyStatus& status : statuses) found.push_back(status.key());
  return found;
}

namespace {

constexpr uint64_t kKeysOfPage = 1000;

struct KeyFlags {
  std::string prefix;
  std::vector<std::string> keys;
  bool compute_digests = false;
  bool allow_missing = false;
  uint64_t limit = 0;
};

// Prints each page when it comes, so that a server of a million keys answers at
// once.
absl::Status RunLs(const KeyFlags& flags, Invocation& invocation) {
  uint64_t num_left = flags.limit == 0 ? UINT64_MAX : flags.limit;
  ListRequest request;
  request.set_prefix(flags.prefix);
  do {
    request.set_page_size(
        static_cast<uint32_t>(std::min<uint64_t>(num_left, kKeysOfPage)));
    ASSIGN_OR_RETURN(const ListReply page, invocation.client.List(request));
    invocation.PrintTable(page.keys(),
                          {"key", "dtype", "shape", "version", "value_bytes"},
                          /*with_header=*/request.page_token().empty());
    num_left -= std::min<uint64_t>(num_left, page.keys_size());
    RETURN_IF_ERROR(NextPage(page.next_page_token(), request));
  } while (!request.page_token().empty() && num_left > 0 && invocation.out);
  return absl::OkStatus();
}

absl::Status RunStat(const KeyFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> statuses,
                   invocation.client.Stat(flags.keys, flags.compute_digests));
  for (const KeyStatus& status : statuses) invocation.Print(status);
  return absl::OkStatus();
}

absl::Status RunRm(const KeyFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                   KeysToUse(flags.keys, flags.prefix, invocation));
  DeleteReply deleted;
  if (!keys.empty()) {
    // With a prefix, a key that somebody else has removed meanwhile is no
    // error.
    ASSIGN_OR_RETURN(const uint64_t num_deleted,
                     invocation.client.Delete(
                         keys, flags.allow_missing || !flags.prefix.empty()));
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
  ls->add_option("prefix", flags->prefix, "Only keys that begin like this");
  ls->add_option("-l,--limit", flags->limit, "At most so many; 0: all")
      ->check(CLI::NonNegativeNumber);

  CLI::App* stat = add("stat", "Print all metadata of keys", RunStat);
  stat->add_option("keys", flags->keys, "Keys")->required();
  stat->add_flag("-d,--digest", flags->compute_digests,
                 "Also XXH3 of the values");

  CLI::App* rm = add("rm", "Remove keys", RunRm);
  rm->add_option("keys", flags->keys, "Keys");
  rm->add_option("-p,--prefix", flags->prefix,
                 "Instead of keys: all that begin like this");
  rm->add_flag("--allow_missing", flags->allow_missing,
               "Keys that do not exist are no error");
}

}  // namespace tensorkv
