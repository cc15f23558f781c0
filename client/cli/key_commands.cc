#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/metadata_text.h"

namespace tensorkv {
namespace {

absl::StatusOr<std::vector<KeyStatus>> ListAll(const std::string& prefix,
                                               Client& client) {
  std::vector<KeyStatus> keys;
  ListRequest request = {.prefix = prefix};
  do {
    ASSIGN_OR_RETURN(ListReply page, client.List(request));
    std::move(page.keys.begin(), page.keys.end(), std::back_inserter(keys));
    request.page_token = page.next_page_token;
  } while (!request.page_token.empty());
  return keys;
}

absl::Status RunLs(const std::string& prefix, Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> keys,
                   ListAll(prefix, invocation.client));
  if (!invocation.flags.is_json()) {
    invocation.out << KeyTable(keys);
    return absl::OkStatus();
  }
  for (const KeyStatus& status : keys) {
    invocation.out << KeyStatusJson(status) << "\n";
  }
  return absl::OkStatus();
}

absl::Status RunStat(const std::vector<std::string>& keys, bool with_digest,
                     Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> statuses,
                   invocation.client.Stat(keys, with_digest));
  bool is_first = true;
  for (const KeyStatus& status : statuses) {
    if (invocation.flags.is_json()) {
      invocation.out << KeyStatusJson(status) << "\n";
    } else {
      invocation.out << (is_first ? "" : "\n") << KeyText(status);
    }
    is_first = false;
  }
  return absl::OkStatus();
}

absl::Status RunRm(const std::vector<std::string>& keys, bool allow_missing,
                   Invocation& invocation) {
  ASSIGN_OR_RETURN(const uint64_t num_deleted,
                   invocation.client.Delete(keys, allow_missing));
  invocation.out << (invocation.flags.is_json()
                         ? absl::StrCat("{\"deleted\":", num_deleted, "}")
                         : absl::StrCat("deleted ", num_deleted))
                 << "\n";
  return absl::OkStatus();
}

struct KeyFlags {
  std::string prefix;
  std::vector<std::string> keys;
  bool with_digest = false;
  bool allow_missing = false;
};

}  // namespace

void AddKeyCommands(CLI::App& app, Action& action) {
  auto flags = std::make_shared<KeyFlags>();

  CLI::App* ls = app.add_subcommand("ls", "List keys");
  ls->add_option("prefix", flags->prefix, "Only keys that begin like this");
  ls->callback([&action, flags] {
    action = [flags](Invocation& invocation) {
      return RunLs(flags->prefix, invocation);
    };
  });

  CLI::App* stat = app.add_subcommand("stat", "Print all metadata of keys");
  stat->add_option("keys", flags->keys, "Keys")->required();
  stat->add_flag("--digest", flags->with_digest, "Also XXH3 of the values");
  stat->callback([&action, flags] {
    action = [flags](Invocation& invocation) {
      return RunStat(flags->keys, flags->with_digest, invocation);
    };
  });

  CLI::App* rm = app.add_subcommand("rm", "Remove keys");
  rm->add_option("keys", flags->keys, "Keys")->required();
  rm->add_flag("--allow-missing", flags->allow_missing,
               "Keys that do not exist are no error");
  rm->callback([&action, flags] {
    action = [flags](Invocation& invocation) {
      return RunRm(flags->keys, flags->allow_missing, invocation);
    };
  });
}

}  // namespace tensorkv
