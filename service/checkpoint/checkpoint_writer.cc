#include "service/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <iterator>
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

// Two batches are in memory at once.
constexpr uint64_t kBatchBytes = 128 << 20;
// Headers stay far below what readers take.
constexpr size_t kKeysPerBatch = 16384;

constexpr size_t kMaxStateNameInFile = 48;

std::string FileName(int name_space, uint32_t batch, size_t index,
                     const std::string& state) {
  const std::string start = absl::StrFormat("%04d-%05d-", name_space, batch);
  if (state.empty()) return absl::StrCat(start, "values.safetensors");
  return absl::StrCat(start, "state", index, "-",
                      state.substr(0, kMaxStateNameInFile), ".safetensors");
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
                                   std::function<void(absl::Duration)> on_pause)
    : directory_(std::move(directory)), on_pause_(std::move(on_pause)) {}

CheckpointWriter::~CheckpointWriter() {
  for (std::thread& thread : threads_) thread.join();
}

absl::Status CheckpointWriter::Begin(NamespaceSnapshot name_space) {
  manifest_.Clear();
  last_contributors_ = nullptr;
  num_batches_ = 0;
  ToProto(name_space, &manifest_);
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Add(KeySnapshot key) {
  batch_bytes_ += key.size_bytes();
  batch_.push_back(std::move(key));
  if (batch_bytes_ < kBatchBytes && batch_.size() < kKeysPerBatch) {
    return absl::OkStatus();
  }
  return Flush();
}

absl::Status CheckpointWriter::Flush() {
  RETURN_IF_ERROR(Join());
  writing_ = std::exchange(batch_, {});
  batch_bytes_ = 0;
  shards_ = ShardsOf(writing_);
  ++num_batches_;
  for (auto& [state, shard] : shards_) {
    threads_.emplace_back([this, &shard = shard] { Write(shard); });
  }
  return absl::OkStatus();
}

CheckpointWriter::Shards CheckpointWriter::ShardsOf(
    const std::vector<KeySnapshot>& batch) {
  Shards shards;
  const auto add = [&](const KeySnapshot& key, const std::string& state,
                       const Tensor& tensor) {
    Shard& shard = shards[state];
    shard.entries.push_back({key.key, tensor.dtype(), tensor.shape()});
    shard.tensors.push_back(&tensor);
  };
  for (const KeySnapshot& key : batch) {
    add(key, "", key.value);
    for (const StateSnapshot& state : key.states) {
      add(key, state.name, state.tensor);
    }
  }
  size_t index = 0;
  for (auto& [state, shard] : shards) {
    shard.name =
        FileName(checkpoint_.namespaces_size(), num_batches_, index++, state);
  }
  return shards;
}

void CheckpointWriter::Write(Shard& shard) const {
  const std::string header = SafetensorsHeader(absl::MakeSpan(shard.entries));
  std::vector<absl::string_view> pieces = {header};
  shard.bytes = header.size();
  for (const Tensor* const tensor : shard.tensors) {
    pieces.push_back(BytesOf(*tensor));
    shard.bytes += pieces.back().size();
    shard.digests.push_back(DigestOf(pieces.back()));
  }
  shard.status = WriteFile(absl::StrCat(directory_, "/", shard.name), pieces);
}

absl::Status CheckpointWriter::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  const auto first_file = static_cast<uint32_t>(manifest_.files_size());
  for (const auto& [state, shard] : shards_) {
    RETURN_IF_ERROR(shard.status);
    manifest_.add_files(shard.name);
    checkpoint_.mutable_status()->set_bytes(checkpoint_.status().bytes() +
                                            shard.bytes);
  }
  // The tensors of a shard have the order of the keys.
  std::map<std::string, size_t> next;
  for (const KeySnapshot& key : writing_) {
    v1::SavedKey* const saved = AddKey(key, last_contributors_, &manifest_);
    manifest_.set_max_version(std::max(manifest_.max_version(), key.version));
    AddTensor("", key.value, next, first_file, saved);
    for (const StateSnapshot& state : key.states) {
      AddTensor(state.name, state.tensor, next, first_file, saved);
    }
  }
  shards_.clear();
  writing_.clear();
  return absl::OkStatus();
}

void CheckpointWriter::AddTensor(const std::string& state, const Tensor& tensor,
                                 std::map<std::string, size_t>& next,
                                 uint32_t first_file, v1::SavedKey* key) const {
  const auto shard = shards_.find(state);
  const size_t i = next[state]++;
  v1::SavedTensor* const saved = key->add_tensors();
  saved->set_state(state);
  saved->set_file(first_file + std::distance(shards_.begin(), shard));
  saved->set_offset(shard->second.entries[i].offset);
  saved->set_dtype(static_cast<v1::DType>(tensor.dtype()));
  const auto dimensions = tensor.shape().dimensions();
  saved->mutable_shape()->Add(dimensions.begin(), dimensions.end());
  saved->set_digest(shard->second.digests[i]);
}

absl::Status CheckpointWriter::End() {
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(Join());
  ASSIGN_OR_RETURN(const std::string bytes, Serialized(manifest_));
  v1::CheckpointStatus& status = *checkpoint_.mutable_status();
  status.set_num_keys(status.num_keys() + manifest_.keys_size());
  status.set_bytes(status.bytes() + bytes.size());
  status.add_namespaces(manifest_.name());
  const std::string name =
      absl::StrFormat("%04d.manifest", checkpoint_.namespaces_size());
  v1::FileDigest* const file = checkpoint_.add_namespaces();
  file->set_name(name);
  file->set_bytes(bytes.size());
  file->set_digest(DigestOf(bytes));
  manifest_.Clear();
  return WriteFile(absl::StrCat(directory_, "/", name), {bytes});
}

absl::StatusOr<CheckpointStatus> CheckpointWriter::Finish(
    v1::CheckpointManifest manifest) {
  checkpoint_.MergeFrom(manifest);
  ASSIGN_OR_RETURN(const std::string bytes, Serialized(checkpoint_));
  const uint64_t digest = DigestOf(bytes);
  RETURN_IF_ERROR(WriteFile(
      absl::StrCat(directory_, "/CHECKPOINT"),
      {bytes, {reinterpret_cast<const char*>(&digest), sizeof(digest)}}));
  RETURN_IF_ERROR(SyncDirectory(directory_));
  return FromProto(checkpoint_.status());
}

}  // namespace tensorkv
