// Writes one checkpoint.

#ifndef TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_WRITER_H_
#define TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ref_counted.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/former_tensors.h"
#include "service/checkpoint/saved_checkpoint.h"
#include "service/store/snapshot.h"
#include "tensor/safetensors.h"
#include "tensorkv/v1/manifest.pb.h"

namespace tensorkv {

// Collects the tensors of a snapshot in batches, and writes each batch, by a
// thread for each of its files, while the next one is collected. Used by one
// thread.
//
// manifest.proto describes the files. What is written is a checkpoint once
// Finish has succeeded and the directory above has been synced.
class CheckpointWriter final : public SnapshotSink {
 public:
  // Writes into `directory`, which is there and empty. Shares with `former`,
  // which may be null and outlives this, the files of tensors that have not
  // changed since. `on_pause` hears of each pause of a namespace's calls, and
  // for how long they waited; may be null.
  CheckpointWriter(std::string directory, const SavedCheckpoint* former,
                   std::function<void(absl::Duration)> on_pause);
  // Waits for the threads. What was written stays.
  ~CheckpointWriter() override;

  absl::Status Begin(NamespaceSnapshot name_space) override;
  absl::Status Add(KeySnapshot key) override;
  absl::Status End() override;
  void Paused(absl::Duration pause) override {
    if (on_pause_) on_pause_(pause);
  }

  // Adds what was written to `manifest`, writes it as the file CHECKPOINT, and
  // syncs the directory. Returns the checkpoint's status. REQUIRES: called
  // once, after the last End. Errors: those of the file system.
  absl::StatusOr<CheckpointStatus> Finish(v1::CheckpointManifest manifest);

 private:
  // The tensors of a batch that go to one file.
  struct Shard {
    std::string name;
    std::vector<SafetensorsEntry> entries;
    std::vector<Tensor> tensors;
    // The manifest's entries of these tensors; the thread that writes the file
    // sets their offsets and digests.
    std::vector<v1::SavedTensor*> saved;
    v1::FileStamp* stamp = nullptr;
    absl::StatusOr<OutputFile> file = absl::UnknownError("not written");
  };
  // The shards by the name of their state; that of the values is empty.
  using Shards = std::map<std::string, Shard>;
  // A batch on its way to its files; the threads fill in its shards.
  struct WritingBatch {
    Shards shards;
    uint64_t bytes = 0;  // of the tensors
    std::vector<std::thread> threads;
  };

  void AddTensor(const KeySnapshot& key, const std::string& state,
                 Tensor tensor, v1::SavedKey* saved);
  // Begins to write the batch, after waiting until there is headroom.
  absl::Status Flush();
  // Returns whether the batch may be written beside those that are being
  // written.
  bool HasHeadroom() const;
  // Gives the shards of the batch their names and places in the manifest.
  void NameShards();
  absl::StatusOr<OutputFile> Write(Shard& shard) const;
  // Waits for the oldest batches, until no more than `num_left` are being
  // written.
  absl::Status Join(size_t num_left);
  // Syncs the oldest files, until no more than `num_left` are to be synced.
  absl::Status Sync(size_t num_left);
  // Counts the files that are shared with the former checkpoint, and sorts the
  // keys by file, for reading.
  void EndTakingOver();

  const std::string directory_;
  const SavedCheckpoint* const former_;
  const std::function<void(absl::Duration)> on_pause_;
  v1::CheckpointManifest checkpoint_;
  v1::NamespaceManifest manifest_;
  RefPtr<const Contributors> last_contributors_;
  // Belongs to the namespace; null if none of it may be taken over.
  std::unique_ptr<FormerTensors> former_tensors_;
  // Where the names of the next files begin.
  uint32_t next_number_ = 0;
  Shards batch_;
  uint64_t batch_bytes_ = 0;
  size_t batch_keys_ = 0;
  std::deque<WritingBatch> writing_;
  // They are written; the disk may still work on them.
  std::deque<OutputFile> unsynced_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_WRITER_H_
