#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/key_selection.h"
#include "client/cli/safetensors_calls.h"
#include "client/cli/safetensors_metadata.h"
#include "client/cli/safetensors_names.h"
#include "tensor/safetensors.h"

namespace tensorkv {
namespace {

struct ExportFlags {
  std::string path;
  KeySelection selection;
  Renaming renaming;
};

// Says what is to be exported.
struct Export {
  // Without their offsets, named as in the file.
  std::vector<SafetensorsEntry> entries;
  // The key of each entry.
  std::vector<std::string> keys;
  // The file is to say this of itself.
  std::string metadata;
};

// Reads what files say of themselves from the key, or returns "" for one that
// has something else.
absl::StatusOr<std::string> PullMetadata(const KeyStatus& key,
                                         Invocation& invocation) {
  if (DTypeOf(key) != DType::kU8) return "";
  ASSIGN_OR_RETURN(const Value value, invocation.client.Pull(key.key()));
  const absl::string_view text(value.tensor.data(), value.tensor.size_bytes());
  return std::string(IsSafetensorsMetadata(text) ? text : "");
}

absl::StatusOr<Export> MakeExport(const ExportFlags& flags,
                                  Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> keys,
                   ListSelected(flags.selection, invocation.client));
  Export made;
  for (const KeyStatus& key : keys) {
    ASSIGN_OR_RETURN(std::string name, flags.renaming.Apply(key.key()));
    if (name == kMetadataKey) {
      ASSIGN_OR_RETURN(made.metadata, PullMetadata(key, invocation));
      if (!made.metadata.empty()) continue;
    }
    ASSIGN_OR_RETURN(Shape shape, ShapeOf(key));
    made.entries.push_back({std::move(name), DTypeOf(key), std::move(shape)});
    made.keys.push_back(key.key());
  }
  return made;
}

// Writes the values of the keys, which are those of the entries.
absl::Status ExportSome(absl::Span<const SafetensorsEntry> some,
                        absl::Span<const std::string> keys,
                        const std::string& path, Invocation& invocation,
                        std::ofstream& file) {
  ASSIGN_OR_RETURN(const PullReply reply,
                   invocation.client.Pull(
                       std::vector<std::string>(keys.begin(), keys.end())));
  for (size_t i = 0; i < some.size(); ++i) {
    const Tensor& tensor = reply.values[i].tensor;
    if (tensor.dtype() != some[i].dtype ||
        tensor.shape().dimensions() != some[i].shape.dimensions()) {
      return absl::AbortedError(
          absl::StrCat("key ", keys[i], ": it was replaced by ",
                       tensor.Description(), " meanwhile"));
    }
    file.write(tensor.data(), tensor.size_bytes());
  }
  return file ? absl::OkStatus() : FileError(path, "cannot be written");
}

absl::Status WriteFile(const std::string& path, absl::string_view header,
                       const Export& exported, Invocation& invocation) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << header;
  absl::Span<const std::string> keys = exported.keys;
  RETURN_IF_ERROR(
      InCalls(exported.entries, [&](absl::Span<const SafetensorsEntry> some) {
        const absl::Span<const std::string> now = keys.subspan(0, some.size());
        keys.remove_prefix(some.size());
        return ExportSome(some, now, path, invocation, file);
      }));
  file.close();
  return file ? absl::OkStatus() : FileError(path, "cannot be written");
}

// Calls `write` with the path of a file that takes the place of `path` if it
// succeeds. Until then what was there stays.
template <typename Function>
absl::Status Replace(const std::string& path, Function write) {
  std::error_code error;
  const std::filesystem::file_status status =
      std::filesystem::status(path, error);
  // A pipe or a device cannot be replaced.
  if (std::filesystem::exists(status) &&
      !std::filesystem::is_regular_file(status)) {
    return write(path);
  }
  const std::string partial = path + ".partial";
  absl::Status end = write(partial);
  if (end.ok()) {
    std::filesystem::rename(partial, path, error);
    if (error) end = FileError(path, error.message());
  }
  if (!end.ok()) std::filesystem::remove(partial, error);
  return end;
}

absl::Status RunExport(const ExportFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(Export exported, MakeExport(flags, invocation));
  const std::string header = WithSafetensorsMetadata(
      SafetensorsHeader(absl::MakeSpan(exported.entries)), exported.metadata);
  // Nothing could read the file.
  const absl::Status readable = SafetensorsHeaderBytes(header).status();
  if (!readable.ok()) return FileError(flags.path, readable.message());
  RETURN_IF_ERROR(Replace(flags.path, [&](const std::string& path) {
    return WriteFile(path, header, exported, invocation);
  }));
  PrintCount("exported", exported.entries.size(), invocation);
  return absl::OkStatus();
}

}  // namespace

void AddExportCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* const command = app.add_subcommand(
      "export",
      "Write values to a .safetensors file; keys of different calls may be of "
      "different moments. What the key __metadata__ has of an import, the file "
      "says of itself");
  OnRun(*command, action, flags, RunExport);
  command->add_option("file", flags->path, "A .safetensors file")->required();
  AddKeyFilters(*command, flags->selection);
  AddRenaming(*command, flags->renaming);
}

}  // namespace tensorkv
