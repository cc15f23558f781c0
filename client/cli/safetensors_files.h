// Declares the files that import reads.

#ifndef TENSORKV_CLIENT_CLI_SAFETENSORS_FILES_H_
#define TENSORKV_CLIENT_CLI_SAFETENSORS_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/safetensors.h"

namespace tensorkv {

// Says what one .safetensors file has.
struct SafetensorsFile {
  std::string path;
  std::vector<SafetensorsEntry> entries;
  // The file says this of itself, as SafetensorsMetadata gives it.
  std::string metadata;
};

// Returns the .safetensors file of that path; or the files of a folder, as
// models are published in: of its one .safetensors.index.json those with the
// tensors that it maps to them, without an index all .safetensors files. No two
// have a tensor of the same name.
// Errors: InvalidArgument, which names the file, for what cannot be read or is
// something else.
absl::StatusOr<std::vector<SafetensorsFile>> ReadSafetensors(
    const std::string& path);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_SAFETENSORS_FILES_H_
