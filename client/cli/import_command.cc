#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/key_selection.h"
#include "client/cli/option_types.h"
#include "client/cli/safetensors_calls.h"
#include "client/cli/safetensors_files.h"
#include "client/cli/safetensors_metadata.h"
#include "client/cli/safetensors_names.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

struct ImportFlags {
  std::string path;
  KeySelection selection;
  Renaming renaming;
  OnExisting on_existing = OnExisting::kFail;
};

// Leaves in each file what is to be imported, and returns how many keys that
// makes. Errors: InvalidArgument for a name that cannot be made another.
absl::StatusOr<size_t> Select(const ImportFlags& flags,
                              std::vector<SafetensorsFile>& files) {
  size_t num_keys = 0;
  for (SafetensorsFile& file : files) {
    std::erase_if(file.entries, [&](const SafetensorsEntry& entry) {
      return !flags.selection.Matches(entry.name);
    });
    for (const SafetensorsEntry& entry : file.entries) {
      RETURN_IF_ERROR(flags.renaming.Apply(entry.name).status());
    }
    num_keys += file.entries.size();
  }
  return num_keys;
}

absl::Status ImportFile(const SafetensorsFile& file, const ImportFlags& flags,
                        Invocation& invocation) {
  std::ifstream content(file.path, std::ios::binary);
  return InCalls(
      file.entries,
      [&](absl::Span<const SafetensorsEntry> some) -> absl::Status {
        std::vector<InitEntry> init;
        for (const SafetensorsEntry& entry : some) {
          ASSIGN_OR_RETURN(Tensor tensor,
                           Tensor::Allocate(entry.dtype, entry.shape));
          content.seekg(entry.offset);
          content.read(tensor.mutable_data(), tensor.size_bytes());
          if (!content) {
            return FileError(file.path, "cannot be read");
          }
          ASSIGN_OR_RETURN(std::string key, flags.renaming.Apply(entry.name));
          init.push_back({std::move(key), std::move(tensor)});
        }
        return invocation.client.Init(std::move(init), flags.on_existing);
      });
}

// Returns what the files say of themselves: of a name the first that says it.
std::string MergedMetadata(const std::vector<SafetensorsFile>& files) {
  nlohmann::json merged = nlohmann::json::object();
  for (const SafetensorsFile& file : files) {
    if (!IsSafetensorsMetadata(file.metadata)) continue;
    const auto members = nlohmann::json::parse(file.metadata);
    merged.insert(members.begin(), members.end());
  }
  return merged.empty() ? "" : merged.dump();
}

// Each import of a prefix says it anew.
absl::Status ImportMetadata(const std::string& metadata,
                            const ImportFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const Shape shape,
                   Shape::Create({static_cast<int64_t>(metadata.size())}));
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(DType::kU8, shape));
  std::memcpy(tensor.mutable_data(), metadata.data(), metadata.size());
  return invocation.client.Init(
      {{absl::StrCat(flags.renaming.add_prefix, kMetadataKey),
        std::move(tensor)}},
      OnExisting::kReplace);
}

absl::Status RunImport(const ImportFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(std::vector<SafetensorsFile> files,
                   ReadSafetensors(flags.path));
  ASSIGN_OR_RETURN(const size_t num_keys, Select(flags, files));
  for (const SafetensorsFile& file : files) {
    RETURN_IF_ERROR(ImportFile(file, flags, invocation));
  }
  const std::string metadata = MergedMetadata(files);
  if (!metadata.empty()) {
    RETURN_IF_ERROR(ImportMetadata(metadata, flags, invocation));
  }
  PrintCount("imported", num_keys, invocation);
  return absl::OkStatus();
}

}  // namespace

void AddImportCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<ImportFlags>();
  CLI::App* const command = app.add_subcommand(
      "import",
      "Create keys with the tensors of a .safetensors file or of a folder of "
      "them, 1000 with each call: an error leaves those before it. What it "
      "says "
      "of itself becomes the key __metadata__");
  OnRun(*command, action, flags, RunImport);
  command
      ->add_option("file", flags->path,
                   "A .safetensors file, or a folder with a "
                   ".safetensors.index.json or such files alone")
      ->required();
  AddKeyFilters(*command, flags->selection);
  AddRenaming(*command, flags->renaming);
  AddChoice(*command, "--on_existing", flags->on_existing,
            "What to do about keys that exist: fail, keep or replace");
}

}  // namespace tensorkv
