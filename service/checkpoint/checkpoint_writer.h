// Writes one checkpoint.

#ifndef TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_WRITER_H_
#define TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ref_counted.h"
#include "service/store/snapshot.h"
#include "tensor/safetensors.h"
#include "tensorkv/v1/manifest.pb.h"

namespace tensorkv {

// Collects the keys of a snapshot in batches, and writes a batch, a thread for
// each of its files, while the next one is collected. Used by one thread.
//
// manifest.proto describes the files. What is written is a checkpoint once
// Finish has succeeded and the directory has been synced.
class CheckpointWriter final : public SnapshotSink {
 public:
  // Writes into `directory`, which is there and empty. `on_pause` hears how
  // long other calls of a namespace waited each time; may be null.
  CheckpointWriter(std::string directory,
                   std::function<void(absl::Duration)> on_pause);
  ~CheckpointWriter() override;

  absl::Status Begin(NamespaceSnapshot name_space) override;
  absl::Status Add(KeySnapshot key) override;
  absl::Status End() override;
  void Paused(absl::Duration pause) override {
    if (on_pause_) on_pause_(pause);
  }

  // Writes `manifest`, with what was written filled in.
  absl::StatusOr<CheckpointStatus> Finish(v1::CheckpointManifest manifest);

 private:
  // The tensors of a batch that go to one file.
  struct Shard {
    std::string name;
    std::vector<SafetensorsEntry> entries;
    std::vector<const Tensor*> tensors;
    std::vector<uint64_t> digests;
    uint64_t bytes = 0;
    absl::Status status;
  };
  // By state; the values have none.
  using Shards = std::map<std::string, Shard>;

  // Waits for the batch that is being written, and has this one written.
  absl::Status Flush();
  // Waits for it, and adds its keys to the manifest.
  absl::Status Join();
  Shards ShardsOf(const std::vector<KeySnapshot>& batch);
  void Write(Shard& shard) const;
  void AddTensor(const std::string& state, const Tensor& tensor,
                 std::map<std::string, size_t>& next, uint32_t first_file,
                 v1::SavedKey* key) const;

  const std::string directory_;
  const std::function<void(absl::Duration)> on_pause_;
  v1::CheckpointManifest checkpoint_;
  v1::NamespaceManifest manifest_;
  RefPtr<const Contributors> last_contributors_;
  uint32_t num_batches_ = 0;
  std::vector<KeySnapshot> batch_;
  uint64_t batch_bytes_ = 0;
  // What is being written.
  std::vector<KeySnapshot> writing_;
  Shards shards_;
  std::vector<std::thread> threads_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_CHECKPOINT_WRITER_H_
