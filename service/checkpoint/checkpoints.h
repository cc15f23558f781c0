// The checkpoints of a server: made, kept, restored.

#ifndef TENSORKV_SERVICE_CHECKPOINT_CHECKPOINTS_H_
#define TENSORKV_SERVICE_CHECKPOINT_CHECKPOINTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "contract/any_call.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/saved_checkpoint.h"
#include "service/store/snapshot.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

struct CheckpointsOptions {
  // Made if it is not there.
  std::string directory;
  // Says how many of the checkpoints stay that the server has made by itself;
  // at least 1.
  uint32_t keep = 3;
  // Every how many checkpoints is written whole; at least 1. The others take
  // over from the last one with all namespaces what has not changed since.
  uint32_t full_every = 1;
  // Names the server that makes the checkpoints.
  uint64_t incarnation = 0;
  // True if an older checkpoint is restored where the last one is damaged.
  bool fallback = false;
  // Hears how long calls of a namespace waited for each locking by a
  // checkpoint; may be null.
  std::function<void(absl::Duration)> on_pause;
  // Takes lines for the log; may be null.
  std::function<void(const std::string&)> log;
  // Has the names in a directory on the disk.
  std::function<absl::Status(const std::string&)> sync_directory =
      SyncDirectory;
};

// CheckpointCounts counts what has become of the checkpoints so far.
struct CheckpointCounts {
  uint64_t saved = 0;
  // Without those whose caller is to blame.
  uint64_t failed = 0;
  // These are about the last one with all namespaces, which a server can start
  // from, whether it was made or restored; 0 if there is none.
  absl::Time last_time = absl::UnixEpoch();
  uint64_t last_bytes = 0;
  // Counts the bytes of these that were written for it; 0 if it was restored.
  uint64_t last_written_bytes = 0;
  // Says how long it took to write.
  absl::Duration last_duration;
};

// RestoreProgress says how far the restoring at the start of a server has come.
struct RestoreProgress {
  std::string name;
  // This counts the bytes of tensors that have been restored.
  uint64_t bytes = 0;
  // The checkpoint takes so much: a little more than its tensors.
  uint64_t total_bytes = 0;
};

// Thread-safe. One server at a time uses a directory.
//
// A checkpoint is written in a directory whose name begins with '.', synced,
// and renamed: whatever happens, a directory without '.' is a whole checkpoint.
class Checkpoints {
 public:
  // `store` outlives this. Removes what is left of checkpoints that were not
  // finished.
  // Errors: Unavailable (another server uses the directory) · those of the file
  // system.
  static absl::StatusOr<std::unique_ptr<Checkpoints>> Create(
      CheckpointsOptions options, Snapshots* store);
  ~Checkpoints();

  // Restores the last whole checkpoint, or an older one if it is damaged and
  // that was asked for; nothing if there is none. What cannot be read is
  // damaged, whatever the reason.
  // REQUIRES: the store is empty.
  // Errors: DataLoss (also if all are damaged) · those of Snapshots.
  absl::StatusOr<std::optional<CheckpointStatus>> RestoreLast();

  // Returns where RestoreLast is; nothing before and after.
  std::optional<RestoreProgress> restoring() const;

  // Saves every `interval` from now on, until Stop. REQUIRES: called once.
  void StartSaving(absl::Duration interval);
  // Waits for what is being saved.
  void Stop();
  // Saves now, as StartSaving does. Errors: those of SaveCheckpoint.
  absl::StatusOr<CheckpointStatus> Save();

  CheckpointCounts counts() const;

  // Do what proto/tensorkv/v1/checkpoint.proto says; each blocks until it is
  // done.
#define TENSORKV_VERB(name, ...)                                  \
  OutcomeOfCall<name##Request> name(const name##Request& request, \
                                    const CallContext& context);
  TENSORKV_CHECKPOINT_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB

 private:
  Checkpoints(CheckpointsOptions options, Snapshots* store, FileDescriptor lock)
      : options_(std::move(options)),
        store_(*store),
        directory_lock_(std::move(lock)) {}

  std::string PathOf(const std::string& name) const {
    return options_.directory + "/" + name;
  }
  // Returns the last whole one of `all`, which are by their sequence. `damage`
  // tells of the first that was passed over, and is updated with that of
  // others.
  absl::StatusOr<std::optional<CheckpointStatus>> RestoreLastOf(
      std::vector<CheckpointStatus> all, absl::Status damage);
  absl::StatusOr<CheckpointStatus> SaveAs(const SaveCheckpointRequest& request,
                                          bool automatic);
  void Count(const SaveCheckpointRequest& request,
             const absl::StatusOr<CheckpointStatus>& saved, absl::Time start);
  // Returns the checkpoint that the next one may take over from; nothing if it
  // is to be written whole.
  std::optional<SavedCheckpoint> FindFormer() const;
  // That one is the former one from now on, unless damage was found in any
  // since there had been `num_damages`.
  void SetFormer(const CheckpointStatus& saved, uint64_t num_damages);
  // Damage was found: nobody knows which files that are shared have it.
  void ForgetFormer();
  uint64_t num_damages() const {
    MutexLock lock(&mutex_);
    return num_damages_;
  }
  // Gives the checkpoint that comes after all others its name and sequence.
  // Errors: InvalidArgument · AlreadyExists (the name that was asked for).
  absl::StatusOr<CheckpointStatus> NextCheckpoint(const std::string& name,
                                                  bool automatic,
                                                  absl::Time start) const;
  absl::StatusOr<CheckpointStatus> Write(const SaveCheckpointRequest& request,
                                         CheckpointStatus status);
  // Gives the checkpoint in `partial` its name, for good, or not at all.
  absl::Status Publish(const std::string& partial, const std::string& path);
  absl::StatusOr<CheckpointStatus> WriteTo(const std::string& directory,
                                           const SaveCheckpointRequest& request,
                                           const CheckpointStatus& status);
  // Restores that one into the empty store.
  absl::Status RestoreAtStart(const CheckpointStatus& checkpoint,
                              const SavedCheckpoint& saved);
  // Reads the checkpoint of that name by `read`. Errors: Unavailable (another
  // caller reads).
  absl::StatusOr<CheckpointStatus> Read(
      const std::string& name,
      absl::FunctionRef<absl::Status(const SavedCheckpoint&)> read);
  absl::Status Remove(const std::string& name);
  void RemoveOld();
  void SaveEvery(absl::Duration interval);
  void Log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  const CheckpointsOptions options_;
  Snapshots& store_;
  const FileDescriptor directory_lock_;
  // One caller at a time saves, and one restores or verifies: more would hold
  // threads that all calls share.
  std::atomic<bool> is_caller_saving_ = false;
  std::atomic<bool> is_caller_reading_ = false;

  // Held while a checkpoint is written, and while namespaces of one come back
  // all at once.
  Mutex save_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  CondVar stopped_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  CheckpointCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::optional<RestoreProgress> restoring_ ABSL_GUARDED_BY(mutex_);
  // The last one with all namespaces that was written, or restored at the
  // start: what the store has is that, and what has changed since.
  std::optional<CheckpointStatus> former_ ABSL_GUARDED_BY(mutex_);
  // Counts how often damage has been found.
  uint64_t num_damages_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_CHECKPOINTS_H_
