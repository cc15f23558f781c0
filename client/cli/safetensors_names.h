// Declares how names of keys become those of tensors in files, and back.

#ifndef TENSORKV_CLIENT_CLI_SAFETENSORS_NAMES_H_
#define TENSORKV_CLIENT_CLI_SAFETENSORS_NAMES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tensorkv {

// Names the key that has what files say of themselves: bytes of JSON.
inline constexpr absl::string_view kMetadataKey = "__metadata__";

// Takes a prefix off names, and puts another one before them.
struct Renaming {
  std::string strip_prefix;
  std::string add_prefix;

  // Errors: InvalidArgument for a name that does not begin with `strip_prefix`.
  absl::StatusOr<std::string> Apply(absl::string_view name) const;
};

// Adds --strip_prefix and --add_prefix. `renaming` outlives the command.
void AddRenaming(CLI::App& command, Renaming& renaming);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_SAFETENSORS_NAMES_H_
