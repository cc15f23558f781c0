#include "service/checkpoint/tensor_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// The size of what is read before its digest is computed: it stays in a
// cache, and is enough for few calls of the system.
constexpr size_t kPieceBytes = 2 << 20;
// So many pieces are asked of the disk at once. More threads would keep the one
// that makes keys of them from running, where the machine has few cores.
constexpr size_t kThreads = 4;

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

// Reads a tensor that is larger than a piece.
absl::Status ReadLarge(const InputFile& file, const TensorToRead& tensor,
                       const DirectBuffer& buffer, absl::Span<char> unkept) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> digest(
      XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(digest.get());
  const absl::Span<char> to = tensor.to;
  for (size_t done = 0; done < to.size(); done += kPieceBytes) {
    const size_t size = std::min(to.size() - done, kPieceBytes);
    const absl::Span<char> piece =
        to.data() == nullptr ? unkept.first(size) : to.subspan(done, size);
    RETURN_IF_ERROR(
        file.ReadUncached(tensor.saved->offset() + done, {piece}, buffer));
    XXH3_64bits_update(digest.get(), piece.data(), piece.size());
  }
  return CheckDigest(file, tensor, XXH3_64bits_digest(digest.get()));
}

}  // namespace

TensorReader::~TensorReader() {
  {
    MutexLock lock(&mutex_);
    is_ending_ = true;
  }
  changed_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status TensorReader::Start(std::vector<TensorToRead> tensors) {
  const auto is_before = [](const TensorToRead& a, const TensorToRead& b) {
    return std::make_pair(a.saved->file(), a.saved->offset()) <
           std::make_pair(b.saved->file(), b.saved->offset());
  };
  // Keys are saved in the order of their values.
  if (!std::is_sorted(tensors.begin(), tensors.end(), is_before)) {
    std::sort(tensors.begin(), tensors.end(), is_before);
  }
  Batch batch;
  for (const TensorToRead& tensor : tensors) {
    ASSIGN_OR_RETURN(const InputFile* const file, FileOf(*tensor.saved, batch));
    RETURN_IF_ERROR(Add(file, tensor, batch.runs));
  }
  const size_t num_threads = std::min(kThreads, batch.runs.size());
  {
    MutexLock lock(&mutex_);
    batches_.push_back(std::move(batch));
  }
  changed_.SignalAll();
  while (threads_.size() < num_threads) {
    threads_.emplace_back([this] { ReadRuns(); });
  }
  return absl::OkStatus();
}

absl::StatusOr<const InputFile*> TensorReader::FileOf(
    const v1::SavedTensor& saved, Batch& batch) const {
  const auto found = batch.files.find(saved.file());
  if (found != batch.files.end()) return &found->second;
  if (saved.file() >= static_cast<uint32_t>(manifest_.files_size())) {
    return absl::DataLossError("manifest: a tensor without a file");
  }
  absl::StatusOr<InputFile> file = InputFile::Open(
      absl::StrCat(directory_, "/", manifest_.files(saved.file())));
  if (!file.ok()) return absl::DataLossError(file.status().message());
  return &batch.files.emplace(saved.file(), *std::move(file)).first->second;
}

absl::Status TensorReader::Add(const InputFile* file,
                               const TensorToRead& tensor,
                               std::vector<Run>& runs) {
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
  if (runs.empty() || !goes_on(runs.back())) runs.push_back({.file = file});
  runs.back().tensors.push_back(tensor);
  runs.back().size_bytes += bytes;
  return absl::OkStatus();
}

absl::Status TensorReader::ReadRun(const Run& run, const DirectBuffer& buffer,
                                   absl::Span<char> unkept) {
  const TensorToRead& first = run.tensors[0];
  if (run.size_bytes > kPieceBytes) {
    return ReadLarge(*run.file, first, buffer, unkept);
  }
  std::vector<absl::Span<char>> pieces;
  pieces.reserve(run.tensors.size());
  for (const TensorToRead& tensor : run.tensors) {
    pieces.push_back(tensor.to);
    if (tensor.to.data() != nullptr) continue;
    pieces.back() = unkept.first(tensor.to.size());
    unkept.remove_prefix(tensor.to.size());
  }
  RETURN_IF_ERROR(
      run.file->ReadUncached(first.saved->offset(), pieces, buffer));
  for (size_t i = 0; i < pieces.size(); ++i) {
    RETURN_IF_ERROR(
        CheckDigest(*run.file, run.tensors[i],
                    XXH3_64bits(pieces[i].data(), pieces[i].size())));
  }
  return absl::OkStatus();
}

void TensorReader::ReadRuns() {
  const DirectBuffer buffer(kPieceBytes);
  std::vector<char> unkept(kPieceBytes);
  const Run* run = nullptr;
  while (Batch* const batch = AwaitRun(run)) {
    EndRun(ReadRun(*run, buffer, absl::MakeSpan(unkept)), *batch);
  }
}

TensorReader::Batch* TensorReader::AwaitRun(const Run*& run) {
  MutexLock lock(&mutex_);
  while (!is_ending_) {
    for (Batch& batch : batches_) {
      if (batch.num_begun == batch.runs.size() || !batch.status.ok()) continue;
      run = &batch.runs[batch.num_begun++];
      return &batch;
    }
    changed_.Wait(&mutex_);
  }
  return nullptr;
}

void TensorReader::EndRun(const absl::Status& status, Batch& batch) {
  {
    MutexLock lock(&mutex_);
    batch.status.Update(status);
    if (++batch.num_read < batch.runs.size() && batch.status.ok()) return;
  }
  changed_.SignalAll();
}

absl::Status TensorReader::Wait() {
  MutexLock lock(&mutex_);
  const Batch& batch = batches_.front();
  while (batch.num_read < batch.runs.size() && batch.status.ok()) {
    changed_.Wait(&mutex_);
  }
  RETURN_IF_ERROR(batch.status);
  batches_.pop_front();
  return absl::OkStatus();
}

}  // namespace tensorkv
