// Reads tensors of a checkpoint from its files.

#ifndef TENSORKV_SERVICE_CHECKPOINT_TENSOR_READER_H_
#define TENSORKV_SERVICE_CHECKPOINT_TENSOR_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "service/checkpoint/files.h"
#include "tensorkv/v1/manifest.pb.h"

namespace tensorkv {

// TensorToRead says where the elements of a tensor are to go. What it refers to
// outlives the reader.
struct TensorToRead {
  absl::string_view key;
  const v1::SavedTensor* saved = nullptr;
  // Has as many bytes as the tensor. Where it is at no memory (null), the
  // elements are compared with their digest and not kept.
  absl::Span<char> to;
};

// Reads tensors of a namespace with some threads, batch after batch, each in
// the order of its files, and compares each tensor with its digest while its
// bytes are in a cache. Start is called by one thread, Wait by one.
class TensorReader {
 public:
  // Both outlive it.
  TensorReader(const std::string& directory,
               const v1::NamespaceManifest& manifest)
      : directory_(directory), manifest_(manifest) {}
  // Drops the reads that have not begun, and waits for those that have.
  ~TensorReader();

  // Opens the batch's files, queues its reads behind those of earlier batches,
  // and returns. The files stay open until Wait. Errors: those of Wait.
  absl::Status Start(std::vector<TensorToRead> tensors);

  // Blocks until all tensors of the oldest batch are there, and drops the
  // batch; or until one of its tensors is damaged: then no more of the batch is
  // read. REQUIRES: there is a batch that was not waited for. Errors: DataLoss
  // names the file and the tensor.
  absl::Status Wait();

 private:
  // Tensors that follow one another in a file, to be read at once, or a larger
  // one.
  struct Run {
    const InputFile* file = nullptr;
    std::vector<TensorToRead> tensors;
    uint64_t size_bytes = 0;
  };
  // Once it has started, only the counts and the status change.
  struct Batch {
    // By their numbers in the manifest.
    std::map<uint32_t, InputFile> files;
    std::vector<Run> runs;
    size_t num_begun = 0;
    size_t num_read = 0;
    // The first error: no more of it is begun. Batches before it are read.
    absl::Status status;
  };

  absl::StatusOr<const InputFile*> FileOf(const v1::SavedTensor& saved,
                                          Batch& batch) const;
  // Adds the tensor to the last run, if it goes on there, or to a new one.
  static absl::Status Add(const InputFile* file, const TensorToRead& tensor,
                          std::vector<Run>& runs);
  // Reads what is not kept into `unkept`, which has room for a piece.
  static absl::Status ReadRun(const Run& run, const DirectBuffer& buffer,
                              absl::Span<char> unkept);
  // Reads runs until the end.
  void ReadRuns();
  // Returns the next run and its batch, once there is one; null at the end.
  Batch* AwaitRun(const Run*& run);
  // Counts a run of the batch as read, or keeps its error.
  void EndRun(const absl::Status& status, Batch& batch);

  const std::string& directory_;
  const v1::NamespaceManifest& manifest_;

  Mutex mutex_;
  CondVar changed_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Batch> batches_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_TENSOR_READER_H_
