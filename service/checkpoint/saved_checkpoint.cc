#include "service/checkpoint/saved_checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "google/protobuf/arena.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/manifest_codec.h"
#include "service/checkpoint/tensor_reading.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// What is passed on at once. Twice as much is read meanwhile.
constexpr uint64_t kBytesPassedOn = 32 << 20;
constexpr size_t kKeysPassedOn = 4096;
// They lie in no more files: a namespace may have more than the process may
// open.
constexpr size_t kFilesPassedOn = 64;

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

// Blocks for messages of many parts, which are made and destroyed faster there.
google::protobuf::ArenaOptions ManyKeys() {
  google::protobuf::ArenaOptions options;
  options.max_block_size = 1 << 20;
  return options;
}

v1::NamespaceManifest* NewManifest(google::protobuf::Arena& arena) {
  return google::protobuf::Arena::CreateMessage<v1::NamespaceManifest>(&arena);
}

// A tensor like the saved one, whose elements are yet to come.
absl::StatusOr<Tensor> WithoutElements(const v1::SavedTensor& saved) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(saved.dtype()));
  ASSIGN_OR_RETURN(Shape shape, Shape::Create(saved.shape()));
  return Tensor::WithoutData(dtype, std::move(shape));
}

// Some keys on their way from the disk.
struct KeyBatch {
  std::vector<KeySnapshot> keys;
  // Last: it writes into them.
  std::unique_ptr<TensorReading> reading;
};

// Reads the keys of a namespace, some at a time. Used by one thread.
class KeyReader {
 public:
  // Both outlive it.
  KeyReader(const std::string& directory, const v1::NamespaceManifest& manifest)
      : directory_(directory),
        manifest_(manifest),
        contributors_(ContributorsOf(manifest)) {}

  // Begins to read the next keys into memory of `allocate`. None, and no
  // reading, if there are no more. Errors: DataLoss · those of `allocate`.
  absl::StatusOr<KeyBatch> Next(
      absl::FunctionRef<absl::Status(absl::Span<Tensor* const>)> allocate);

 private:
  absl::StatusOr<KeySnapshot> MakeKey(const v1::SavedKey& saved) const;
  // The keys from the next one on, without elements.
  absl::StatusOr<std::vector<KeySnapshot>> MakeKeys();

  const std::string& directory_;
  const v1::NamespaceManifest& manifest_;
  const std::vector<RefPtr<const Contributors>> contributors_;
  int next_ = 0;
};

absl::StatusOr<KeySnapshot> KeyReader::MakeKey(
    const v1::SavedKey& saved) const {
  ASSIGN_OR_RETURN(KeySnapshot key, FromProto(saved, contributors_));
  for (const v1::SavedTensor& each : saved.tensors()) {
    absl::StatusOr<Tensor> tensor = WithoutElements(each);
    if (!tensor.ok()) {
      return Damaged(directory_, absl::StrCat("tensor \"", saved.key(),
                                              "\": no dtype or shape"));
    }
    if (each.state().empty()) {
      key.value = *std::move(tensor);
    } else {
      key.states.push_back({each.state(), *std::move(tensor)});
    }
  }
  return key;
}

absl::StatusOr<std::vector<KeySnapshot>> KeyReader::MakeKeys() {
  std::vector<KeySnapshot> keys;
  keys.reserve(std::min<size_t>(kKeysPassedOn, manifest_.keys_size() - next_));
  absl::flat_hash_set<uint32_t> files;
  for (uint64_t bytes = 0;
       next_ < manifest_.keys_size() && bytes < kBytesPassedOn &&
       keys.size() < kKeysPassedOn && files.size() < kFilesPassedOn;
       ++next_) {
    const v1::SavedKey& saved = manifest_.keys(next_);
    ASSIGN_OR_RETURN(KeySnapshot key, MakeKey(saved));
    bytes += key.size_bytes();
    for (const v1::SavedTensor& each : saved.tensors()) {
      files.insert(each.file());
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

absl::StatusOr<KeyBatch> KeyReader::Next(
    absl::FunctionRef<absl::Status(absl::Span<Tensor* const>)> allocate) {
  const int first = next_;
  KeyBatch batch;
  ASSIGN_OR_RETURN(batch.keys, MakeKeys());
  if (batch.keys.empty()) return batch;
  std::vector<Tensor*> tensors;
  std::vector<TensorToRead> to_read;
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    KeySnapshot& key = batch.keys[i];
    size_t next_state = 0;
    for (const v1::SavedTensor& each : manifest_.keys(first + i).tensors()) {
      tensors.push_back(
          each.state().empty() ? &key.value : &key.states[next_state++].tensor);
      to_read.push_back({key.key, &each});
    }
  }
  RETURN_IF_ERROR(allocate(tensors));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto bytes = static_cast<size_t>(tensors[i]->size_bytes());
    to_read[i].to = {tensors[i]->mutable_data(), bytes};
  }
  ASSIGN_OR_RETURN(batch.reading, TensorReading::Start(directory_, manifest_,
                                                       std::move(to_read)));
  return batch;
}

// Memory that nobody counts.
absl::Status AllocateUncounted(absl::Span<Tensor* const> tensors) {
  for (Tensor* const tensor : tensors) {
    ASSIGN_OR_RETURN(*tensor,
                     Tensor::Allocate(tensor->dtype(), tensor->shape()));
  }
  return absl::OkStatus();
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

absl::Status SavedCheckpoint::ReadManifest(
    const v1::FileDigest& file, v1::NamespaceManifest& manifest) const {
  const std::string path = absl::StrCat(directory_, "/", file.name());
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
  if (XXH3_64bits(bytes->data(), bytes->size()) != file.digest() ||
      !manifest.ParseFromString(*bytes)) {
    return Damaged(path, "its bytes do not have the digest of CHECKPOINT");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::NamespaceManifest> SavedCheckpoint::ManifestOf(
    const std::string& name_space) const {
  const auto& names = manifest_.status().namespaces();
  const auto found = std::find(names.begin(), names.end(), name_space);
  if (found == names.end()) {
    return HasNoNamespace(manifest_.status().name(), name_space);
  }
  v1::NamespaceManifest manifest;
  RETURN_IF_ERROR(ReadManifest(
      manifest_.namespaces(static_cast<int>(found - names.begin())), manifest));
  return manifest;
}

absl::Status SavedCheckpoint::ReadKeys(const v1::NamespaceManifest& manifest,
                                       Allocate allocate,
                                       KeysVisitor visit) const {
  KeyReader reader(directory_, manifest);
  ASSIGN_OR_RETURN(KeyBatch batch, reader.Next(allocate));
  ASSIGN_OR_RETURN(KeyBatch next, reader.Next(allocate));
  while (batch.reading != nullptr) {
    RETURN_IF_ERROR(batch.reading->Wait());
    absl::Status visited;
    std::thread visitor([&] { visited = visit(std::move(batch.keys)); });
    absl::StatusOr<KeyBatch> last = reader.Next(allocate);
    visitor.join();
    RETURN_IF_ERROR(visited);
    RETURN_IF_ERROR(last.status());
    batch = std::exchange(next, *std::move(last));
  }
  return absl::OkStatus();
}

absl::Status SavedCheckpoint::Verify(Cancellation* cancellation) const {
  const auto go_on = [cancellation](const std::vector<KeySnapshot>&) {
    return CheckWanted(cancellation);
  };
  for (const v1::FileDigest& file : manifest_.namespaces()) {
    google::protobuf::Arena arena(ManyKeys());
    auto& manifest = *NewManifest(arena);
    RETURN_IF_ERROR(ReadManifest(file, manifest));
    RETURN_IF_ERROR(FromProto(manifest).status());
    RETURN_IF_ERROR(ReadKeys(manifest, &AllocateUncounted, go_on));
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
    google::protobuf::Arena arena(ManyKeys());
    auto& manifest = *NewManifest(arena);
    RETURN_IF_ERROR(ReadManifest(manifest_.namespaces(i), manifest));
    ASSIGN_OR_RETURN(NamespaceSnapshot snapshot, FromProto(manifest));
    if (!selection.as_namespace.empty()) {
      snapshot.name = selection.as_namespace;
    }
    if (selection.with_new_uids) snapshot.uid = 0;
    RETURN_IF_ERROR(to.Begin(snapshot));
    const auto allocate = [&](absl::Span<Tensor* const> tensors) {
      return to.Allocate(tensors);
    };
    const auto add = [&](std::vector<KeySnapshot> keys) {
      RETURN_IF_ERROR(CheckWanted(selection.cancellation));
      uint64_t bytes = 0;
      for (const KeySnapshot& key : keys) bytes += key.size_bytes();
      RETURN_IF_ERROR(to.Add(std::move(keys)));
      if (selection.on_bytes) selection.on_bytes(bytes);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(ReadKeys(manifest, allocate, add));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
