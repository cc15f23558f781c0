// Tensors of a checkpoint on their way from its files.

#ifndef TENSORKV_SERVICE_CHECKPOINT_TENSOR_READING_H_
#define TENSORKV_SERVICE_CHECKPOINT_TENSOR_READING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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

// Where the elements of a tensor are to go. What it refers to outlives the
// reading.
struct TensorToRead {
  absl::string_view key;
  const v1::SavedTensor* saved = nullptr;
  // As many bytes as the tensor takes.
  absl::Span<char> to;
};

// Reads tensors with some threads, in the order of their files, and compares
// each with its digest while its bytes are in a cache. Used by one thread.
class TensorReading {
 public:
  // Begins. All files are open until the end. Errors: as Wait.
  static absl::StatusOr<std::unique_ptr<TensorReading>> Start(
      const std::string& directory, const v1::NamespaceManifest& manifest,
      std::vector<TensorToRead> tensors);
  // What has not begun is not read.
  ~TensorReading();

  // Returns when all is there, or something is damaged.
  // Errors: DataLoss names the file and the tensor.
  absl::Status Wait();

 private:
  // Tensors that follow one another in a file, to be read at once, or a larger
  // one.
  struct Run {
    const InputFile* file = nullptr;
    std::vector<TensorToRead> tensors;
    uint64_t size_bytes = 0;
  };

  TensorReading() = default;

  absl::StatusOr<const InputFile*> FileOf(const std::string& directory,
                                          const v1::NamespaceManifest& manifest,
                                          const v1::SavedTensor& saved);
  // Adds the tensor to the last run, if it goes on there, or to a new one.
  absl::Status Add(const InputFile* file, const TensorToRead& tensor);
  static absl::Status ReadRun(const Run& run, const DirectRoom& room);
  // Reads runs until none is left.
  void ReadRuns();
  void StartThreads();
  void Join();

  // By their numbers in the manifest.
  std::map<uint32_t, InputFile> files_;
  std::vector<Run> runs_;
  std::atomic<size_t> next_run_ = 0;
  std::vector<std::thread> threads_;
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_TENSOR_READING_H_
