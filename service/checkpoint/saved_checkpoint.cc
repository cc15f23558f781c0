#include "service/checkpoint/saved_checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "google/protobuf/arena.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/manifest_codec.h"
#include "service/checkpoint/tensor_reader.h"
#include "tensor/safetensors.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// Says how much is passed on at once, while the batches behind it are read.
constexpr uint64_t kBytesPassedOn = 32 << 20;
constexpr size_t kKeysPassedOn = 4096;
// They lie in about so many files: a namespace may have more than the process
// may open.
constexpr size_t kFilesPassedOn = 32;

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

// Checks that what is restored does not get the uid by which it was saved: who
// knows the former one by that would go on in the restored one.
absl::Status CheckIsAnother(const NamespaceSnapshot& saved,
                            const RestoreSelection& selection) {
  const bool is_another = saved.uid == 0 || selection.uid != saved.uid;
  if (is_another || !selection.as_namespace.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "uid: expected one that no namespace \"", absl::CHexEscape(saved.name),
      "\" has had, got that of the one that was saved"));
}

// Reads what comes before the tensors of a file. Errors: DataLoss.
absl::StatusOr<std::string> ReadHeader(const std::string& path,
                                       const v1::FileStamp& stamp) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return absl::DataLossError(file.status().message());
  if (file->size_bytes() != stamp.bytes() ||
      stamp.tensor_bytes() > stamp.bytes()) {
    return Damaged(path, absl::StrCat("expected ", stamp.bytes(),
                                      " bytes, got ", file->size_bytes()));
  }
  std::string header(stamp.bytes() - stamp.tensor_bytes(), '\0');
  RETURN_IF_ERROR(file->Read(0, {absl::MakeSpan(header)}));
  return header;
}

// Returns the entries of a file's header, in the order of their bytes. Headers
// are written in one way only, so that each of its bytes counts. Errors:
// DataLoss.
absl::StatusOr<std::vector<SafetensorsEntry>> EntriesOf(
    const std::string& path, const v1::FileStamp& stamp) {
  ASSIGN_OR_RETURN(const std::string header, ReadHeader(path, stamp));
  absl::StatusOr<std::vector<SafetensorsEntry>> entries =
      ParseSafetensorsHeader(header, stamp.bytes());
  if (entries.ok() && SafetensorsHeader(absl::MakeSpan(*entries)) == header) {
    return entries;
  }
  return Damaged(path, "its header is not as it was written");
}

// Returns whether the entry is that tensor's.
bool IsOf(const SafetensorsEntry& entry, const v1::SavedTensor& saved) {
  const auto dimensions = entry.shape.dimensions();
  return entry.offset == saved.offset() &&
         static_cast<v1::DType>(entry.dtype) == saved.dtype() &&
         std::equal(dimensions.begin(), dimensions.end(), saved.shape().begin(),
                    saved.shape().end());
}

// By the names of tensors, what a header says of them.
using Entries = absl::flat_hash_map<std::string, SafetensorsEntry>;

// Blocks for messages of many parts, which are made and destroyed faster there.
google::protobuf::ArenaOptions ManyKeys() {
  google::protobuf::ArenaOptions options;
  options.max_block_size = 1 << 20;
  return options;
}

v1::NamespaceManifest* NewManifest(google::protobuf::Arena& arena) {
  return google::protobuf::Arena::CreateMessage<v1::NamespaceManifest>(&arena);
}

}  // namespace

// Reads the keys of a namespace, some at a time: while the caller deals with
// one batch, threads read the tensors of the next. Used by one thread.
class SavedCheckpoint::KeyReader {
 public:
  // The first two outlive it.
  KeyReader(const std::string& directory, const v1::NamespaceManifest& manifest,
            TensorAllocator allocate)
      : directory_(directory),
        manifest_(manifest),
        allocate_(std::move(allocate)),
        contributors_(ContributorsOf(manifest)),
        reader_(directory, manifest) {}

  // Returns the next keys, once those that it returned before are done with;
  // none if there are no more.
  // Errors: DataLoss · ResourceExhausted (there is no memory for a key, though
  // all before are done with).
  absl::StatusOr<std::vector<KeySnapshot>> Next();

 private:
  struct Batch {
    std::vector<KeySnapshot> keys;
    uint64_t bytes = 0;
  };

  // Begins to read batches, as many as may be on their way.
  absl::Status BeginBatches();
  bool HasHeadroom() const;
  // A batch is shorter where there is no memory for more.
  absl::StatusOr<Batch> MakeBatch();
  // Makes a key, and adds its tensors to those that are to be read.
  absl::StatusOr<KeySnapshot> MakeKey(const v1::SavedKey& saved,
                                      std::vector<TensorToRead>& to_read) const;
  absl::StatusOr<Tensor> MakeTensor(const v1::SavedKey& key,
                                    const v1::SavedTensor& saved) const;

  const std::string& directory_;
  const v1::NamespaceManifest& manifest_;
  const TensorAllocator allocate_;
  const std::vector<RefPtr<const Contributors>> contributors_;
  // Which key is made next.
  int next_ = 0;
  // Those that are being read.
  std::deque<Batch> batches_;
  // Writes into the batches.
  TensorReader reader_;
};

absl::StatusOr<Tensor> SavedCheckpoint::KeyReader::MakeTensor(
    const v1::SavedKey& key, const v1::SavedTensor& saved) const {
  const absl::StatusOr<DType> dtype = DTypeFromNumber(saved.dtype());
  absl::StatusOr<Shape> shape = Shape::Create(saved.shape());
  if (dtype.ok() && shape.ok()) {
    return allocate_(*dtype, *std::move(shape));
  }
  return Damaged(directory_,
                 absl::StrCat("tensor \"", key.key(), "\": no dtype or shape"));
}

absl::StatusOr<KeySnapshot> SavedCheckpoint::KeyReader::MakeKey(
    const v1::SavedKey& saved, std::vector<TensorToRead>& to_read) const {
  ASSIGN_OR_RETURN(KeySnapshot key, FromProto(saved, contributors_));
  for (const v1::SavedTensor& each : saved.tensors()) {
    ASSIGN_OR_RETURN(Tensor tensor, MakeTensor(saved, each));
    to_read.push_back(
        {saved.key(),
         &each,
         {tensor.mutable_data(), static_cast<size_t>(tensor.size_bytes())}});
    if (each.state().empty()) {
      key.value = std::move(tensor);
    } else {
      key.states.push_back({each.state(), std::move(tensor)});
    }
  }
  return key;
}

absl::Status SavedCheckpoint::KeyReader::BeginBatches() {
  while (next_ < manifest_.keys_size() && HasHeadroom()) {
    absl::StatusOr<Batch> batch = MakeBatch();
    // Batches before give their memory to keys, or back.
    if (absl::IsResourceExhausted(batch.status()) && !batches_.empty()) break;
    RETURN_IF_ERROR(batch.status());
    batches_.push_back(*std::move(batch));
  }
  return absl::OkStatus();
}

// One is read while the caller deals with the one before. A third is for
// batches of the usual size: a key may be as large as the memory takes.
bool SavedCheckpoint::KeyReader::HasHeadroom() const {
  constexpr size_t kBatches = 3;
  return batches_.size() < kBatches - 1 ||
         (batches_.size() < kBatches &&
          batches_.front().bytes + batches_.back().bytes <=
              kBatches * kBytesPassedOn);
}

absl::StatusOr<SavedCheckpoint::KeyReader::Batch>
SavedCheckpoint::KeyReader::MakeBatch() {
  Batch batch;
  std::vector<KeySnapshot>& keys = batch.keys;
  keys.reserve(std::min<size_t>(manifest_.keys_size() - next_, kKeysPassedOn));
  std::vector<TensorToRead> to_read;
  to_read.reserve(keys.capacity());
  absl::flat_hash_set<uint32_t> files;
  for (; next_ < manifest_.keys_size() && batch.bytes < kBytesPassedOn &&
         keys.size() < kKeysPassedOn && files.size() < kFilesPassedOn;
       ++next_) {
    const v1::SavedKey& saved = manifest_.keys(next_);
    const size_t num_to_read = to_read.size();
    absl::StatusOr<KeySnapshot> key = MakeKey(saved, to_read);
    if (absl::IsResourceExhausted(key.status()) && !keys.empty()) {
      to_read.erase(to_read.begin() + num_to_read, to_read.end());
      break;
    }
    RETURN_IF_ERROR(key.status());
    batch.bytes += key->size_bytes();
    for (const v1::SavedTensor& each : saved.tensors()) {
      files.insert(each.file());
    }
    keys.push_back(*std::move(key));
  }
  RETURN_IF_ERROR(reader_.Start(std::move(to_read)));
  return batch;
}

absl::StatusOr<std::vector<KeySnapshot>> SavedCheckpoint::KeyReader::Next() {
  RETURN_IF_ERROR(BeginBatches());
  if (batches_.empty()) return std::vector<KeySnapshot>();
  // After an error others of its tensors may still be on their way into it.
  RETURN_IF_ERROR(reader_.Wait());
  std::vector<KeySnapshot> keys = std::move(batches_.front().keys);
  batches_.pop_front();
  return keys;
}

absl::Status CheckNotCancelled(Cancellation* cancellation) {
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
                                       const TensorAllocator& allocate,
                                       KeysVisitor visit) const {
  KeyReader reader(directory_, manifest, allocate);
  while (true) {
    ASSIGN_OR_RETURN(std::vector<KeySnapshot> keys, reader.Next());
    if (keys.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(visit(std::move(keys)));
  }
}

absl::Status SavedCheckpoint::Verify(Cancellation* cancellation) const {
  const auto go_on = [cancellation](const std::vector<KeySnapshot>&) {
    return CheckNotCancelled(cancellation);
  };
  for (const v1::FileDigest& file : manifest_.namespaces()) {
    google::protobuf::Arena arena(ManyKeys());
    auto& manifest = *NewManifest(arena);
    RETURN_IF_ERROR(ReadManifest(file, manifest));
    RETURN_IF_ERROR(FromProto(manifest).status());
    RETURN_IF_ERROR(VerifyHeaders(manifest));
    // No budget counts a checkpoint that is only verified.
    RETURN_IF_ERROR(ReadKeys(manifest, &Tensor::WithoutData, go_on));
  }
  return absl::OkStatus();
}

absl::Status SavedCheckpoint::VerifyHeaders(
    const v1::NamespaceManifest& manifest) const {
  if (manifest.stamps_size() != manifest.files_size()) {
    return Damaged(directory_, "its files do not have a stamp each");
  }
  std::vector<Entries> headers;
  for (int i = 0; i < manifest.files_size(); ++i) {
    ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries,
                     EntriesOf(PathOf(manifest.files(i)), manifest.stamps(i)));
    Entries& by_name = headers.emplace_back();
    for (SafetensorsEntry& entry : entries) {
      by_name.emplace(entry.name, std::move(entry));
    }
  }
  for (const v1::SavedKey& key : manifest.keys()) {
    for (const v1::SavedTensor& tensor : key.tensors()) {
      if (tensor.file() >= headers.size()) continue;  // who reads it says so
      const Entries& entries = headers[tensor.file()];
      const auto found = entries.find(key.key());
      if (found != entries.end() && IsOf(found->second, tensor)) continue;
      return Damaged(PathOf(manifest.files(static_cast<int>(tensor.file()))),
                     absl::StrCat("its header does not say what the manifest "
                                  "does of \"",
                                  absl::CHexEscape(key.key()), "\""));
    }
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
    RETURN_IF_ERROR(CheckIsAnother(snapshot, selection));
    if (!selection.as_namespace.empty()) {
      snapshot.name = selection.as_namespace;
    }
    snapshot.uid = selection.uid.value_or(snapshot.uid);
    snapshot.num_keys = manifest.keys_size();
    RETURN_IF_ERROR(to.Begin(snapshot));
    const auto allocate = [&to](DType dtype, Shape shape) {
      return to.Allocate(dtype, std::move(shape));
    };
    const auto add = [&](std::vector<KeySnapshot> keys) -> absl::Status {
      RETURN_IF_ERROR(CheckNotCancelled(selection.cancellation));
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
