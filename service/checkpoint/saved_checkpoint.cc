#include "service/checkpoint/saved_checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/manifest_codec.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// What is passed on at once.
constexpr uint64_t kBytesPassedOn = 256 << 20;
constexpr size_t kKeysPassedOn = 4096;
// A namespace may have more files than the process may open. Those of a batch
// that was saved at once, one for each state, are read at the same time.
constexpr size_t kMaxOpenFiles = 64;
// So far ahead of what is copied the disk is asked to read.
constexpr uint64_t kBytesAhead = 32 << 20;

absl::Status Damaged(absl::string_view file, absl::string_view how) {
  return absl::DataLossError(absl::StrCat(file, ": ", how));
}

absl::Status HasNoNamespace(const std::string& checkpoint,
                            const std::string& name) {
  return WithReason(absl::NotFoundError(absl::StrCat(
                        "checkpoint \"", checkpoint, "\" has no namespace \"",
                        absl::CHexEscape(name), "\"")),
                    Reason::kNamespaceNotFound, {{"namespace", name}});
}

// The files of one namespace, opened when they are first read. Used by one
// thread.
class TensorFiles {
 public:
  TensorFiles(const std::string& directory,
              const v1::NamespaceManifest& manifest)
      : directory_(directory), manifest_(manifest) {}

  // Errors: DataLoss.
  absl::StatusOr<Tensor> Read(const v1::SavedKey& key,
                              const v1::SavedTensor& saved);

 private:
  struct OpenFile {
    InputFile file;
    // Up to where the disk has been asked for its bytes.
    uint64_t expected_to = 0;
  };

  absl::StatusOr<OpenFile*> FileOf(const v1::SavedTensor& saved);

  const std::string& directory_;
  const v1::NamespaceManifest& manifest_;
  std::map<uint32_t, OpenFile> open_;
};

// Has the disk read on behind `end`, while what is before is copied and its
// digest is computed.
void ExpectFrom(uint64_t end, uint64_t& expected_to, const InputFile& file) {
  if (end + kBytesAhead / 2 < expected_to) return;
  const uint64_t begin = std::max(end, expected_to);
  expected_to = end + kBytesAhead;
  file.Expect(begin, expected_to - begin);
}

absl::StatusOr<TensorFiles::OpenFile*> TensorFiles::FileOf(
    const v1::SavedTensor& saved) {
  if (saved.file() >= static_cast<uint32_t>(manifest_.files_size())) {
    return Damaged("manifest", "a tensor without a file");
  }
  const auto found = open_.find(saved.file());
  if (found != open_.end()) return &found->second;
  if (open_.size() == kMaxOpenFiles) open_.clear();
  absl::StatusOr<InputFile> file = InputFile::Open(
      absl::StrCat(directory_, "/", manifest_.files(saved.file())));
  if (!file.ok()) return absl::DataLossError(file.status().message());
  return &open_.emplace(saved.file(), OpenFile{*std::move(file)}).first->second;
}

absl::StatusOr<Tensor> TensorFiles::Read(const v1::SavedKey& key,
                                         const v1::SavedTensor& saved) {
  ASSIGN_OR_RETURN(OpenFile* const open, FileOf(saved));
  const InputFile& file = open->file;
  const auto damaged = [&](absl::string_view how) {
    return Damaged(absl::StrCat(directory_, "/", manifest_.files(saved.file())),
                   absl::StrCat("tensor \"", key.key(), "\": ", how));
  };
  const absl::StatusOr<DType> dtype = DTypeFromNumber(saved.dtype());
  absl::StatusOr<Shape> shape = Shape::Create(saved.shape());
  if (!dtype.ok() || !shape.ok()) return damaged("no dtype or shape");
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(*dtype, *std::move(shape)));
  const absl::Span<char> bytes(tensor.mutable_data(), tensor.size_bytes());
  if (saved.offset() + bytes.size() > file.size_bytes()) {
    return damaged("it is cut off");
  }
  ExpectFrom(saved.offset() + bytes.size(), open->expected_to, file);
  RETURN_IF_ERROR(file.Read(saved.offset(), bytes));
  if (XXH3_64bits(bytes.data(), bytes.size()) != saved.digest()) {
    return damaged("its bytes do not have the digest of the manifest");
  }
  return tensor;
}

}  // namespace

absl::Status CheckWanted(Cancellation* cancellation) {
  return cancellation != nullptr && cancellation->is_cancelled()
             ? absl::CancelledError("the caller has given up")
             : absl::OkStatus();
}

absl::StatusOr<SavedCheckpoint> SavedCheckpoint::Open(
    const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/CHECKPOINT");
  ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  v1::CheckpointManifest manifest;
  uint64_t digest = 0;
  if (file.size() < sizeof(digest)) return Damaged(path, "it is cut off");
  const size_t size = file.size() - sizeof(digest);
  std::memcpy(&digest, file.data() + size, sizeof(digest));
  if (XXH3_64bits(file.data(), size) != digest ||
      !manifest.ParseFromArray(file.data(), static_cast<int>(size)) ||
      manifest.namespaces_size() != manifest.status().namespaces_size()) {
    return Damaged(path, "its bytes do not have the digest at its end");
  }
  return SavedCheckpoint(directory, std::move(manifest));
}

// Servers that wrote all of every checkpoint did not say how much.
CheckpointStatus SavedCheckpoint::status() const {
  CheckpointStatus status = FromProto(manifest_.status());
  if (status.written_bytes == 0) status.written_bytes = status.bytes;
  return status;
}

absl::StatusOr<v1::NamespaceManifest> SavedCheckpoint::ReadManifest(
    const v1::FileDigest& file) const {
  const std::string path = absl::StrCat(directory_, "/", file.name());
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
  v1::NamespaceManifest manifest;
  if (XXH3_64bits(bytes->data(), bytes->size()) != file.digest() ||
      !manifest.ParseFromString(*bytes)) {
    return Damaged(path, "its bytes do not have the digest of CHECKPOINT");
  }
  return manifest;
}

absl::StatusOr<v1::NamespaceManifest> SavedCheckpoint::ManifestOf(
    const std::string& name_space) const {
  const auto& names = manifest_.status().namespaces();
  const auto found = std::find(names.begin(), names.end(), name_space);
  if (found == names.end()) {
    return HasNoNamespace(manifest_.status().name(), name_space);
  }
  return ReadManifest(
      manifest_.namespaces(static_cast<int>(found - names.begin())));
}

absl::StatusOr<uint64_t> SavedCheckpoint::TensorBytes() const {
  uint64_t bytes = 0;
  for (const v1::FileDigest& file : manifest_.namespaces()) {
    ASSIGN_OR_RETURN(const v1::NamespaceManifest manifest, ReadManifest(file));
    for (const v1::SavedKey& key : manifest.keys()) {
      for (const v1::SavedTensor& tensor : key.tensors()) {
        const absl::StatusOr<uint64_t> size = SizeBytesOf(tensor);
        if (!size.ok()) {
          return absl::Status(
              size.status().code(),
              absl::StrCat(file.name(), ": ", size.status().message()));
        }
        bytes += *size;
      }
    }
  }
  return bytes;
}

absl::Status SavedCheckpoint::ReadKeys(const v1::NamespaceManifest& manifest,
                                       KeysVisitor visit) const {
  const std::vector<RefPtr<const Contributors>> contributors =
      ContributorsOf(manifest);
  TensorFiles files(directory_, manifest);
  std::vector<KeySnapshot> batch;
  uint64_t bytes = 0;
  for (const v1::SavedKey& saved : manifest.keys()) {
    ASSIGN_OR_RETURN(KeySnapshot key, FromProto(saved, contributors));
    for (const v1::SavedTensor& each : saved.tensors()) {
      ASSIGN_OR_RETURN(Tensor tensor, files.Read(saved, each));
      if (each.state().empty()) {
        key.value = std::move(tensor);
      } else {
        key.states.push_back({each.state(), std::move(tensor)});
      }
    }
    bytes += key.size_bytes();
    batch.push_back(std::move(key));
    if (bytes < kBytesPassedOn && batch.size() < kKeysPassedOn) continue;
    RETURN_IF_ERROR(visit(std::exchange(batch, {})));
    bytes = 0;
  }
  return batch.empty() ? absl::OkStatus() : visit(std::move(batch));
}

absl::Status SavedCheckpoint::Verify(Cancellation* cancellation) const {
  const auto go_on = [cancellation](const std::vector<KeySnapshot>&) {
    return CheckWanted(cancellation);
  };
  for (const v1::FileDigest& file : manifest_.namespaces()) {
    ASSIGN_OR_RETURN(const v1::NamespaceManifest manifest, ReadManifest(file));
    RETURN_IF_ERROR(FromProto(manifest).status());
    RETURN_IF_ERROR(ReadKeys(manifest, go_on));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> SavedCheckpoint::Select(
    const RestoreSelection& selection) const {
  const auto& names = manifest_.status().namespaces();
  std::vector<int> selected;
  for (const std::string& name : selection.namespaces) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return HasNoNamespace(manifest_.status().name(), name);
    }
    selected.push_back(static_cast<int>(found - names.begin()));
  }
  if (selected.empty()) {
    selected.resize(names.size());
    std::iota(selected.begin(), selected.end(), 0);
  }
  std::sort(selected.begin(), selected.end());
  selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
  if (selection.as_namespace.empty() || selected.size() == 1) return selected;
  return absl::InvalidArgumentError(absl::StrCat(
      "as_namespace: expected one namespace of the checkpoint, got ",
      selected.size()));
}

absl::Status SavedCheckpoint::RestoreTo(
    Restoration& to, const RestoreSelection& selection) const {
  ASSIGN_OR_RETURN(const std::vector<int> selected, Select(selection));
  for (const int i : selected) {
    ASSIGN_OR_RETURN(const v1::NamespaceManifest manifest,
                     ReadManifest(manifest_.namespaces(i)));
    ASSIGN_OR_RETURN(NamespaceSnapshot snapshot, FromProto(manifest));
    if (!selection.as_namespace.empty()) {
      snapshot.name = selection.as_namespace;
    }
    if (selection.with_new_uids) snapshot.uid = 0;
    RETURN_IF_ERROR(to.Begin(snapshot));
    RETURN_IF_ERROR(ReadKeys(manifest, [&](std::vector<KeySnapshot> keys) {
      RETURN_IF_ERROR(CheckWanted(selection.cancellation));
      uint64_t bytes = 0;
      for (const KeySnapshot& key : keys) bytes += key.size_bytes();
      RETURN_IF_ERROR(to.Add(std::move(keys)));
      if (selection.on_bytes) selection.on_bytes(bytes);
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
