#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/bearer_token.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/usage_error.h"

namespace tensorkv {
namespace {

// Writes a file that there was not, for its owner alone.
absl::Status WriteSecret(const std::string& path, const std::string& text) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.is_open() && write(file.get(), text.data(), text.size()) ==
                            static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::Status RunTokenNew(const std::string& name, const std::string& path,
                         Invocation& invocation) {
  const bool is_name = std::all_of(
      name.begin(), name.end(), [](char c) { return absl::ascii_isgraph(c); });
  if (name.empty() || !is_name || name.front() == '#') {
    return UsageError(absl::StrCat(
        "\"", name,
        "\": expected a name without blanks that does not begin with #"));
  }
  const std::string token = NewBearerToken();
  RETURN_IF_ERROR(WriteSecret(path, absl::StrCat(token, "\n")));
  const TokenDigest digest = DigestOf(token);
  invocation.out << name << " "
                 << absl::BytesToHexString(
                        {reinterpret_cast<const char*>(digest.data()),
                         digest.size()})
                 << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddTokenCommand(CLI::App& app, Action& action) {
  CLI::App* group = app.add_subcommand("token", "Bearer tokens");
  group->require_subcommand(1);
  CLI::App* command = group->add_subcommand(
      "new",
      "Write a new token to a file, for --token_file, and print the line that "
      "the server's --token_file takes; no server is asked");
  auto name = std::make_shared<std::string>();
  auto path = std::make_shared<std::string>();
  command->add_option("name", *name, "Whose token it is")->required();
  command->add_option("file", *path, "The file, which must not exist")
      ->required();
  command->callback([&action, name, path] {
    action = [name, path](Invocation& invocation) {
      return RunTokenNew(*name, *path, invocation);
    };
  });
}

}  // namespace tensorkv
