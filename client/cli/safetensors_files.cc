#include "client/cli/safetensors_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/safetensors_calls.h"
#include "client/cli/safetensors_metadata.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kIndexSuffix = ".safetensors.index.json";
constexpr absl::string_view kFileSuffix = ".safetensors";
// torch.save writes such files.
constexpr absl::string_view kStartOfZip = "PK\x03\x04";

absl::Status Unreadable(const std::string& path) {
  return FileError(path, absl::StrCat("cannot be read: ", strerror(errno)));
}

// The errors do not name the file.
absl::StatusOr<uint64_t> HeaderBytesOf(absl::string_view start) {
  if (absl::StartsWith(start, kStartOfZip)) {
    return absl::InvalidArgumentError(
        "expected a .safetensors file, got a zip of torch.save: save the "
        "tensors that torch.load gives by safetensors.torch.save_file");
  }
  return SafetensorsHeaderBytes(start);
}

absl::StatusOr<SafetensorsFile> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const auto file_bytes = static_cast<int64_t>(file.tellg());
  if (!file || file_bytes < 0) return Unreadable(path);
  std::string header(8, '\0');
  file.seekg(0).read(header.data(), header.size());
  header.resize(file.gcount());
  const absl::StatusOr<uint64_t> header_bytes = HeaderBytesOf(header);
  if (!header_bytes.ok()) {
    return FileError(path, header_bytes.status().message());
  }
  header.resize(std::min<uint64_t>(*header_bytes, file_bytes));
  file.clear();
  file.seekg(0).read(header.data(), header.size());
  if (!file) return Unreadable(path);
  absl::StatusOr<std::vector<SafetensorsEntry>> entries =
      ParseSafetensorsHeader(header, file_bytes);
  if (!entries.ok()) return FileError(path, entries.status().message());
  return SafetensorsFile{path, *std::move(entries),
                         SafetensorsMetadata(header)};
}

// Maps the names of files to those of the tensors that they have.
using Shards = std::map<std::string, std::set<std::string>>;

absl::StatusOr<Shards> ReadIndex(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Unreadable(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json map = json.is_object() && json.contains("weight_map")
                       ? json["weight_map"]
                       : Json();
  if (!map.is_object()) {
    return FileError(path, "expected an object with a \"weight_map\"");
  }
  Shards shards;
  for (const auto& [tensor, shard] : map.items()) {
    // No other folder's file.
    if (!shard.is_string() || shard.get<std::string>().empty() ||
        absl::StrContains(shard.get<std::string>(), '/')) {
      return FileError(path, absl::StrCat("tensor \"", tensor,
                                          "\": expected the name of a file "
                                          "beside the index, got ",
                                          shard.dump().substr(0, 64)));
    }
    shards[shard.get<std::string>()].insert(tensor);
  }
  return shards;
}

// Reads the file, of which the index says that it has these tensors.
absl::StatusOr<SafetensorsFile> ReadShard(const std::string& path,
                                          std::set<std::string> tensors) {
  ASSIGN_OR_RETURN(SafetensorsFile file, ReadFile(path));
  std::erase_if(file.entries, [&](const SafetensorsEntry& entry) {
    return tensors.erase(entry.name) == 0;
  });
  if (tensors.empty()) return file;
  return FileError(path, absl::StrCat("expected tensor \"", *tensors.begin(),
                                      "\", as the index says, got none"));
}

absl::Status CheckNamesDiffer(const std::vector<SafetensorsFile>& files) {
  std::map<std::string, std::string> path_of;
  for (const SafetensorsFile& file : files) {
    for (const SafetensorsEntry& entry : file.entries) {
      const auto [other, is_new] = path_of.try_emplace(entry.name, file.path);
      if (is_new) continue;
      return FileError(file.path,
                       absl::StrCat("tensor \"", entry.name, "\": it is in ",
                                    other->second, ", too"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SafetensorsFile>> ReadFolder(
    const std::filesystem::path& folder) {
  std::vector<std::string> indices;
  std::set<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator each(folder, error), end;
       !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (absl::EndsWith(name, kIndexSuffix)) indices.push_back(name);
    if (absl::EndsWith(name, kFileSuffix)) names.insert(name);
  }
  if (error) {
    return FileError(folder, absl::StrCat("cannot be read: ", error.message()));
  }
  if (indices.size() > 1 || (indices.empty() && names.empty())) {
    return FileError(folder,
                     absl::StrCat("expected one ", kIndexSuffix,
                                  " or .safetensors files without, got ",
                                  indices.size(), " and ", names.size()));
  }
  std::vector<SafetensorsFile> files;
  if (indices.empty()) {
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(files.emplace_back(), ReadFile(folder / name));
    }
  } else {
    ASSIGN_OR_RETURN(const Shards shards, ReadIndex(folder / indices[0]));
    for (const auto& [name, tensors] : shards) {
      ASSIGN_OR_RETURN(files.emplace_back(), ReadShard(folder / name, tensors));
    }
  }
  RETURN_IF_ERROR(CheckNamesDiffer(files));
  return files;
}

}  // namespace

absl::StatusOr<std::vector<SafetensorsFile>> ReadSafetensors(
    const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return ReadFolder(path);
  ASSIGN_OR_RETURN(SafetensorsFile file, ReadFile(path));
  return std::vector<SafetensorsFile>{std::move(file)};
}

}  // namespace tensorkv
