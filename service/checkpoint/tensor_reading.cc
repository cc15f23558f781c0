#include "service/checkpoint/tensor_reading.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// What is read before its digest is computed: it stays in a core's cache.
constexpr size_t kPieceBytes = 512 << 10;
// So many pieces are asked of the disk at once: most threads wait for it.
constexpr size_t kThreads = 8;

absl::Status Damaged(const InputFile& file, const TensorToRead& tensor,
                     absl::string_view how) {
  return absl::DataLossError(
      absl::StrCat(file.path(), ": tensor \"", tensor.key, "\": ", how));
}

absl::Status CheckDigest(const InputFile& file, const TensorToRead& tensor,
                         uint64_t digest) {
  if (digest == tensor.saved->digest()) return absl::OkStatus();
  return Damaged(file, tensor,
                 "its bytes do not have the digest of the manifest");
}

// One that is larger than a piece.
absl::Status ReadLarge(const InputFile& file, const TensorToRead& tensor,
                       const DirectRoom& room) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> digest(
      XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(digest.get());
  uint64_t offset = tensor.saved->offset();
  for (absl::Span<char> to = tensor.to; !to.empty();) {
    const absl::Span<char> piece = to.first(std::min(to.size(), kPieceBytes));
    RETURN_IF_ERROR(file.ReadOnce(offset, {piece}, room));
    XXH3_64bits_update(digest.get(), piece.data(), piece.size());
    offset += piece.size();
    to.remove_prefix(piece.size());
  }
  return CheckDigest(file, tensor, XXH3_64bits_digest(digest.get()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorReading>> TensorReading::Start(
    const std::string& directory, const v1::NamespaceManifest& manifest,
    std::vector<TensorToRead> tensors) {
  const auto place = [](const TensorToRead& tensor) {
    return std::make_pair(tensor.saved->file(), tensor.saved->offset());
  };
  std::sort(tensors.begin(), tensors.end(),
            [place](const TensorToRead& a, const TensorToRead& b) {
              return place(a) < place(b);
            });
  std::unique_ptr<TensorReading> reading(new TensorReading);
  for (const TensorToRead& tensor : tensors) {
    ASSIGN_OR_RETURN(const InputFile* const file,
                     reading->FileOf(directory, manifest, *tensor.saved));
    RETURN_IF_ERROR(reading->Add(file, tensor));
  }
  reading->StartThreads();
  return reading;
}

TensorReading::~TensorReading() {
  next_run_ = runs_.size();
  Join();
}

absl::StatusOr<const InputFile*> TensorReading::FileOf(
    const std::string& directory, const v1::NamespaceManifest& manifest,
    const v1::SavedTensor& saved) {
  const auto found = files_.find(saved.file());
  if (found != files_.end()) return &found->second;
  if (saved.file() >= static_cast<uint32_t>(manifest.files_size())) {
    return absl::DataLossError("manifest: a tensor without a file");
  }
  absl::StatusOr<InputFile> file = InputFile::Open(
      absl::StrCat(directory, "/", manifest.files(saved.file())));
  if (!file.ok()) return absl::DataLossError(file.status().message());
  return &files_.emplace(saved.file(), *std::move(file)).first->second;
}

absl::Status TensorReading::Add(const InputFile* file,
                                const TensorToRead& tensor) {
  const uint64_t offset = tensor.saved->offset();
  const uint64_t bytes = tensor.to.size();
  if (bytes > file->size_bytes() || offset > file->size_bytes() - bytes) {
    return Damaged(*file, tensor, "it is cut off");
  }
  const auto goes_on = [&](const Run& run) {
    return run.file == file &&
           run.tensors[0].saved->offset() + run.size_bytes == offset &&
           run.size_bytes + bytes <= kPieceBytes;
  };
  if (runs_.empty() || !goes_on(runs_.back())) runs_.push_back({.file = file});
  runs_.back().tensors.push_back(tensor);
  runs_.back().size_bytes += bytes;
  return absl::OkStatus();
}

absl::Status TensorReading::ReadRun(const Run& run, const DirectRoom& room) {
  const TensorToRead& first = run.tensors[0];
  if (run.size_bytes > kPieceBytes) return ReadLarge(*run.file, first, room);
  std::vector<absl::Span<char>> pieces;
  pieces.reserve(run.tensors.size());
  for (const TensorToRead& tensor : run.tensors) pieces.push_back(tensor.to);
  RETURN_IF_ERROR(run.file->ReadOnce(first.saved->offset(), pieces, room));
  for (const TensorToRead& tensor : run.tensors) {
    RETURN_IF_ERROR(CheckDigest(
        *run.file, tensor, XXH3_64bits(tensor.to.data(), tensor.to.size())));
  }
  return absl::OkStatus();
}

void TensorReading::StartThreads() {
  for (size_t i = 0; i < std::min(kThreads, runs_.size()); ++i) {
    threads_.emplace_back([this] { ReadRuns(); });
  }
}

void TensorReading::ReadRuns() {
  const DirectRoom room(kPieceBytes);
  for (size_t i = next_run_++; i < runs_.size(); i = next_run_++) {
    const absl::Status status = ReadRun(runs_[i], room);
    if (status.ok()) continue;
    next_run_ = runs_.size();
    MutexLock lock(&mutex_);
    status_.Update(status);
  }
}

void TensorReading::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

absl::Status TensorReading::Wait() {
  Join();
  MutexLock lock(&mutex_);
  return status_;
}

}  // namespace tensorkv
