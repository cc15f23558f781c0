#include "client/cli/safetensors_names.h"

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tensorkv {

absl::StatusOr<std::string> Renaming::Apply(absl::string_view name) const {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, strip_prefix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--strip_prefix: expected names that begin with \"",
                     strip_prefix, "\", got \"", name, "\""));
  }
  return absl::StrCat(add_prefix, rest);
}

void AddRenaming(CLI::App& command, Renaming& renaming) {
  command.add_option("--strip_prefix", renaming.strip_prefix,
                     "Taken off the names, which all begin like this");
  command.add_option("--add_prefix", renaming.add_prefix,
                     "Put before the names, after that");
}

}  // namespace tensorkv
