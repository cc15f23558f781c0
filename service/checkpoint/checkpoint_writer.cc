#include "service/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/manifest_codec.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// Copying into the system's cache takes longer than collecting: one thread
// alone does not keep a fast disk busy. Batches with states have several files,
// and so threads enough of their own.
constexpr size_t kMinThreads = 2;
constexpr uint64_t kBatchBytes = 64 << 20;
// The batches that are written and the next one, which is collected meanwhile,
// have at most so many bytes together; above that, one is written at a time.
constexpr uint64_t kMaxBytes = 4 * kBatchBytes;
// So many files may be on their way to the disk while the next are written: it
// never waits for bytes, and there are descriptors for them.
constexpr size_t kMaxUnsynced = 8;
// Headers stay far below what readers take, and the disk does not wait long for
// the first of many small tensors.
constexpr size_t kKeysPerBatch = 8192;

constexpr size_t kMaxStateNameInFile = 48;

// Returns what the name of a file says besides its numbers; `index` tells
// states apart whose names begin alike.
std::string KindOfFile(const std::string& state, size_t index) {
  if (state.empty()) return "values.safetensors";
  return absl::StrCat("state", index, "-", state.substr(0, kMaxStateNameInFile),
                      ".safetensors");
}

uint64_t DigestOf(absl::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

absl::string_view BytesOf(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.size_bytes())};
}

absl::StatusOr<std::string> Serialized(const google::protobuf::Message& proto) {
  std::string bytes;
  if (proto.SerializeToString(&bytes)) return bytes;
  return absl::ResourceExhaustedError(
      "manifest: expected less than 2 GiB, got more");
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string directory,
                                   const SavedCheckpoint* former,
                                   std::function<void(absl::Duration)> on_pause)
    : directory_(std::move(directory)),
      former_(former),
      on_pause_(std::move(on_pause)) {}

CheckpointWriter::~CheckpointWriter() {
  for (WritingBatch& batch : writing_) {
    for (std::thread& thread : batch.threads) thread.join();
  }
}

absl::Status CheckpointWriter::Begin(NamespaceSnapshot name_space) {
  manifest_.Clear();
  last_contributors_ = nullptr;
  former_tensors_ = nullptr;
  next_number_ = 0;
  ToProto(name_space, &manifest_);
  if (former_ == nullptr) return absl::OkStatus();
  absl::StatusOr<v1::NamespaceManifest> former =
      former_->ManifestOf(name_space.name);
  // Without it, all is written.
  if (!former.ok() || former->uid() != name_space.uid) return absl::OkStatus();
  former_tensors_ = std::make_unique<FormerTensors>(
      former_->directory(), *std::move(former), directory_,
      checkpoint_.namespaces_size());
  next_number_ = former_tensors_->num_files();
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Add(KeySnapshot key) {
  v1::SavedKey* const saved = AddKey(key, last_contributors_, &manifest_);
  manifest_.set_max_version(std::max(manifest_.max_version(), key.version));
  AddTensor(key, "", std::move(key.value), saved);
  for (StateSnapshot& state : key.states) {
    AddTensor(key, state.name, std::move(state.tensor), saved);
  }
  if (batch_bytes_ < kBatchBytes && batch_keys_ < kKeysPerBatch) {
    return absl::OkStatus();
  }
  return Flush();
}

void CheckpointWriter::AddTensor(const KeySnapshot& key,
                                 const std::string& state, Tensor tensor,
                                 v1::SavedKey* saved) {
  v1::SavedTensor* const added = saved->add_tensors();
  if (former_tensors_ != nullptr &&
      former_tensors_->TakeOver(key, state, tensor, &manifest_, added)) {
    return;
  }
  added->set_state(state);
  added->set_dtype(static_cast<v1::DType>(tensor.dtype()));
  const auto dimensions = tensor.shape().dimensions();
  added->mutable_shape()->Add(dimensions.begin(), dimensions.end());
  Shard& shard = batch_[state];
  shard.entries.push_back({key.key, tensor.dtype(), tensor.shape()});
  shard.saved.push_back(added);
  batch_bytes_ += tensor.size_bytes();
  batch_keys_ = std::max(batch_keys_, shard.entries.size());
  shard.tensors.push_back(std::move(tensor));
}

absl::Status CheckpointWriter::Flush() {
  if (batch_.empty()) return absl::OkStatus();
  while (!writing_.empty() && !HasHeadroom()) {
    RETURN_IF_ERROR(Join(writing_.size() - 1));
  }
  NameShards();
  WritingBatch& writing = writing_.emplace_back();
  writing.bytes = batch_bytes_;
  writing.shards = std::exchange(batch_, {});
  batch_bytes_ = 0;
  batch_keys_ = 0;
  for (auto& [state, shard] : writing.shards) {
    writing.threads.emplace_back(
        [this, &shard = shard] { shard.file = Write(shard); });
  }
  return Sync(kMaxUnsynced);
}

bool CheckpointWriter::HasHeadroom() const {
  size_t num_threads = batch_.size();
  uint64_t bytes = 2 * batch_bytes_;  // the next one will have as many
  for (const WritingBatch& each : writing_) {
    num_threads += each.shards.size();
    bytes += each.bytes;
  }
  return num_threads <= kMinThreads && bytes <= kMaxBytes;
}

void CheckpointWriter::NameShards() {
  size_t index = 1;
  for (auto& [state, shard] : batch_) {
    shard.name = TensorFileName(checkpoint_.namespaces_size(), next_number_,
                                KindOfFile(state, state.empty() ? 0 : index++));
    for (v1::SavedTensor* const saved : shard.saved) {
      saved->set_file(manifest_.files_size());
    }
    manifest_.add_files(shard.name);
    shard.stamp = manifest_.add_stamps();
  }
  ++next_number_;
}

absl::StatusOr<OutputFile> CheckpointWriter::Write(Shard& shard) const {
  const std::string header = SafetensorsHeader(absl::MakeSpan(shard.entries));
  std::vector<absl::string_view> pieces = {header};
  uint64_t tensor_bytes = 0;
  for (size_t i = 0; i < shard.tensors.size(); ++i) {
    pieces.push_back(BytesOf(shard.tensors[i]));
    tensor_bytes += pieces.back().size();
    shard.saved[i]->set_offset(shard.entries[i].offset);
  }
  const std::string path = absl::StrCat(directory_, "/", shard.name);
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(file.Append(pieces));
  // The disk works meanwhile.
  for (size_t i = 0; i < shard.tensors.size(); ++i) {
    shard.saved[i]->set_digest(DigestOf(BytesOf(shard.tensors[i])));
  }
  ASSIGN_OR_RETURN(const FileStamp stamp, StampOf(path));
  shard.stamp->set_bytes(stamp.bytes);
  shard.stamp->set_modify_time(stamp.modify_time);
  shard.stamp->set_tensor_bytes(tensor_bytes);
  return file;
}

absl::Status CheckpointWriter::Join(size_t num_left) {
  v1::CheckpointStatus& status = *checkpoint_.mutable_status();
  while (writing_.size() > num_left) {
    WritingBatch& oldest = writing_.front();
    for (std::thread& thread : oldest.threads) thread.join();
    oldest.threads.clear();
    for (auto& [state, shard] : oldest.shards) {
      RETURN_IF_ERROR(shard.file.status());
      status.set_written_bytes(status.written_bytes() + shard.stamp->bytes());
      unsynced_.push_back(*std::move(shard.file));
    }
    writing_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Sync(size_t num_left) {
  while (unsynced_.size() > num_left) {
    RETURN_IF_ERROR(unsynced_.front().Sync());
    unsynced_.pop_front();
  }
  return absl::OkStatus();
}

void CheckpointWriter::EndTakingOver() {
  if (former_tensors_ == nullptr) return;
  const uint64_t bytes = former_tensors_->RemoveUnused();
  former_tensors_ = nullptr;
  if (bytes == 0) return;
  v1::CheckpointStatus& status = *checkpoint_.mutable_status();
  status.set_bytes(status.bytes() + bytes);
  checkpoint_.set_steps_from_full(former_->steps_from_full() + 1);
  // Keys of one file came between those of others; each is to be read in one
  // go.
  const auto place = [](const v1::SavedKey* key) {
    return std::make_pair(key->tensors(0).file(), key->tensors(0).offset());
  };
  std::sort(manifest_.mutable_keys()->pointer_begin(),
            manifest_.mutable_keys()->pointer_end(),
            [place](const v1::SavedKey* a, const v1::SavedKey* b) {
              return place(a) < place(b);
            });
}

absl::Status CheckpointWriter::End() {
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(Join(/*num_left=*/0));
  EndTakingOver();
  ASSIGN_OR_RETURN(const std::string bytes, Serialized(manifest_));
  v1::CheckpointStatus& status = *checkpoint_.mutable_status();
  status.set_num_keys(status.num_keys() + manifest_.keys_size());
  status.set_written_bytes(status.written_bytes() + bytes.size());
  status.add_namespaces(manifest_.name());
  const std::string name =
      absl::StrFormat("%04d.manifest", checkpoint_.namespaces_size());
  v1::FileDigest* const file = checkpoint_.add_namespaces();
  file->set_name(name);
  file->set_bytes(bytes.size());
  file->set_digest(DigestOf(bytes));
  manifest_.Clear();
  // The manifest is written before tensors are synced, so that the disk is busy
  // meanwhile.
  ASSIGN_OR_RETURN(OutputFile output,
                   OutputFile::Create(absl::StrCat(directory_, "/", name)));
  RETURN_IF_ERROR(output.Append({bytes}));
  unsynced_.push_back(std::move(output));
  return Sync(/*num_left=*/0);
}

absl::StatusOr<CheckpointStatus> CheckpointWriter::Finish(
    v1::CheckpointManifest manifest) {
  checkpoint_.MergeFrom(manifest);
  v1::CheckpointStatus& status = *checkpoint_.mutable_status();
  // So far, these are what is taken over.
  status.set_bytes(status.bytes() + status.written_bytes());
  ASSIGN_OR_RETURN(const std::string bytes, Serialized(checkpoint_));
  const uint64_t digest = DigestOf(bytes);
  RETURN_IF_ERROR(WriteFile(
      absl::StrCat(directory_, "/CHECKPOINT"),
      {bytes, {reinterpret_cast<const char*>(&digest), sizeof(digest)}}));
  RETURN_IF_ERROR(SyncDirectory(directory_));
  return checkpoint_.status();
}

}  // namespace tensorkv
