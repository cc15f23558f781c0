#include <algorithm>
#include <cstdint>
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
#include "client/cli/option_types.h"
#include "tensor/safetensors.h"

namespace tensorkv {
namespace {

// Bounds what one call moves.
constexpr uint64_t kBytesPerCall = 64 << 20;
constexpr size_t kKeysPerCall = 1000;

struct FileFlags {
  std::string path;
  std::string prefix;
  OnExisting on_existing = OnExisting::kFail;
};

absl::Status FileError(const std::string& path, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

// Returns those of the entries, from the first on, that one call is for.
absl::Span<const SafetensorsEntry> NextCall(
    absl::Span<const SafetensorsEntry> entries) {
  size_t num_keys = 0;
  uint64_t bytes = 0;
  while (num_keys < entries.size() && num_keys < kKeysPerCall &&
         (num_keys == 0 ||
          bytes + entries[num_keys].size_bytes() <= kBytesPerCall)) {
    bytes += entries[num_keys++].size_bytes();
  }
  return entries.subspan(0, num_keys);
}

// Calls `make_call` with all entries, some at a time.
template <typename Call>
absl::Status InCalls(absl::Span<const SafetensorsEntry> entries,
                     Call make_call) {
  while (!entries.empty()) {
    const absl::Span<const SafetensorsEntry> next = NextCall(entries);
    RETURN_IF_ERROR(make_call(next));
    entries.remove_prefix(next.size());
  }
  return absl::OkStatus();
}

void PrintCount(absl::string_view verb, size_t num_keys,
                Invocation& invocation) {
  invocation.out << (invocation.flags.is_json()
                         ? absl::StrCat("{\"keys\":", num_keys, "}")
                         : absl::StrCat(verb, " ", num_keys, " keys"))
                 << "\n";
}

// The error does not name the file.
absl::StatusOr<std::vector<SafetensorsEntry>> ReadHeader(std::ifstream& file) {
  const absl::Status unreadable = absl::InvalidArgumentError("cannot be read");
  file.seekg(0, std::ios::end);
  const auto file_bytes = static_cast<int64_t>(file.tellg());
  if (!file || file_bytes < 0) return unreadable;
  std::string header(8, '\0');
  file.seekg(0).read(header.data(), header.size());
  header.resize(file.gcount());
  ASSIGN_OR_RETURN(const uint64_t header_bytes, SafetensorsHeaderBytes(header));
  header.resize(std::min<uint64_t>(header_bytes, file_bytes));
  file.clear();
  file.seekg(0).read(header.data(), header.size());
  if (!file) return unreadable;
  return ParseSafetensorsHeader(header, file_bytes);
}

absl::Status RunImport(const FileFlags& flags, Invocation& invocation) {
  std::ifstream file(flags.path, std::ios::binary);
  const absl::StatusOr<std::vector<SafetensorsEntry>> entries =
      ReadHeader(file);
  if (!entries.ok()) {
    return FileError(flags.path, entries.status().message());
  }
  RETURN_IF_ERROR(InCalls(
      *entries, [&](absl::Span<const SafetensorsEntry> some) -> absl::Status {
        std::vector<InitEntry> init;
        for (const SafetensorsEntry& entry : some) {
          ASSIGN_OR_RETURN(Tensor tensor,
                           Tensor::Allocate(entry.dtype, entry.shape));
          file.seekg(entry.offset);
          file.read(tensor.mutable_data(), tensor.size_bytes());
          if (!file) return FileError(flags.path, "cannot be read");
          init.push_back({flags.prefix + entry.name, std::move(tensor)});
        }
        return invocation.client.Init(std::move(init), flags.on_existing);
      }));
  PrintCount("imported", entries->size(), invocation);
  return absl::OkStatus();
}

// Returns the keys to export, without their offsets.
absl::StatusOr<std::vector<SafetensorsEntry>> KeysToExport(
    const FileFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> keys,
                   invocation.client.ListAll(flags.prefix));
  std::vector<SafetensorsEntry> entries;
  for (const KeyStatus& key : keys) {
    ASSIGN_OR_RETURN(Shape shape, ShapeOf(key));
    entries.push_back({key.key(), DTypeOf(key), std::move(shape)});
  }
  return entries;
}

absl::Status ExportSome(absl::Span<const SafetensorsEntry> some,
                        const std::string& path, Invocation& invocation,
                        std::ofstream& file) {
  std::vector<std::string> keys;
  for (const SafetensorsEntry& entry : some) keys.push_back(entry.name);
  ASSIGN_OR_RETURN(const PullReply reply, invocation.client.Pull(keys));
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
                       absl::Span<const SafetensorsEntry> entries,
                       Invocation& invocation) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << header;
  RETURN_IF_ERROR(
      InCalls(entries, [&](absl::Span<const SafetensorsEntry> some) {
        return ExportSome(some, path, invocation, file);
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

absl::Status RunExport(const FileFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries,
                   KeysToExport(flags, invocation));
  const std::string header = SafetensorsHeader(absl::MakeSpan(entries));
  // Nothing could read the file.
  const absl::Status readable = SafetensorsHeaderBytes(header).status();
  if (!readable.ok()) return FileError(flags.path, readable.message());
  RETURN_IF_ERROR(Replace(flags.path, [&](const std::string& path) {
    return WriteFile(path, header, entries, invocation);
  }));
  PrintCount("exported", entries.size(), invocation);
  return absl::OkStatus();
}

}  // namespace

void AddSafetensorsCommands(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<FileFlags>();
  const auto add = [&](const char* name, const char* help, auto run) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("file", flags->path, "A .safetensors file")->required();
    OnRun(*command, action, flags, run);
    return command;
  };

  CLI::App* into_store =
      add("import",
          "Create keys with the tensors of a .safetensors file, 1000 with each "
          "call: an error leaves those before it",
          RunImport);
  into_store->add_option("-p,--prefix", flags->prefix,
                         "Put before their names");
  AddChoice(*into_store, "--on_existing", flags->on_existing,
            "What to do about keys that exist: fail, keep or replace");
  add("export",
      "Write values to a .safetensors file; keys of different calls may be of "
      "different moments",
      RunExport)
      ->add_option("-p,--prefix", flags->prefix,
                   "Only keys that begin like this");
}

}  // namespace tensorkv
