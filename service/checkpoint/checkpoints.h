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
  // The directory of the checkpoints; made if it is not there.
  std::string directory;
  // How many of the checkpoints that the server has made by itself are kept; at
  // least 1. Older ones are removed, but none that a caller has asked for.
  uint32_t keep = 3;
  // One of so many checkpoints is written whole; at least 1. The others share
  // the files of what has not changed with the last one with all namespaces.
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
  // Syncs a directory, so that its names are on the disk. Tests replace it.
  std::function<absl::Status(const std::string&)> sync_directory =
      SyncDirectory;
};

// CheckpointCounts counts what has become of the checkpoints so far.
struct CheckpointCounts {
  uint64_t saved = 0;
  // Does not count saves that failed by the caller's fault.
  uint64_t failed = 0;
  // These are about the last checkpoint with all namespaces, from which a
  // server can start, whether it was saved or restored; 0 if there is none.
  // `last_time` is when it was begun.
  absl::Time last_time = absl::UnixEpoch();
  uint64_t last_bytes = 0;
  // How many of these bytes were written for it, and not shared with a
  // checkpoint before; 0 if it was restored.
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

// Saves and restores the checkpoints of one store in one directory, which one
// server at a time uses. Thread-safe. Functions that read or write checkpoints
// block.
//
// A checkpoint is written in a directory whose name begins with '.', synced,
// and renamed: whatever happens, a directory without '.' is a whole checkpoint.
class Checkpoints {
 public:
  // Makes and locks the directory, and removes what is left of checkpoints that
  // were not finished. `store` outlives the result.
  // Errors: Unavailable (another server uses the directory) · those of the file
  // system.
  static absl::StatusOr<std::unique_ptr<Checkpoints>> Create(
      CheckpointsOptions options, Snapshots* store);
  ~Checkpoints();

  // Restores the last checkpoint with all namespaces, or, with
  // CheckpointsOptions::fallback, an older one if that is damaged. Returns
  // which; nothing if there is none. What cannot be read counts as damaged,
  // whatever the reason. REQUIRES: the store is empty. Errors: DataLoss (also
  // if all are damaged) · those of Snapshots.
  absl::StatusOr<std::optional<CheckpointStatus>> RestoreLast();

  // Returns how far RestoreLast has come; nothing before and after it.
  std::optional<RestoreProgress> restoring() const;

  // Starts a thread that calls Save every `interval`, first after one, until
  // Stop. REQUIRES: called once.
  void StartSaving(absl::Duration interval);
  // Ends the thread of StartSaving, after the save that is under way.
  void Stop();
  // Saves a checkpoint as one that the server makes by itself, and removes
  // those that `keep` does not keep. Logs what came of it. Errors: those of
  // SaveCheckpoint.
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
  // Restores the last checkpoint with all namespaces of `all`, which are in the
  // order of their sequence numbers. `damage` is the error of one that was
  // passed over before, or OK: if none can be restored, the result is that
  // error, or that of the first that is passed over here.
  absl::StatusOr<std::optional<CheckpointStatus>> RestoreLastOf(
      std::vector<CheckpointStatus> all, absl::Status damage);
  // Saves a checkpoint, after those that are being saved, counts it, and makes
  // it the former one. `automatic`: the server makes it by itself.
  absl::StatusOr<CheckpointStatus> SaveAs(const SaveCheckpointRequest& request,
                                          bool automatic);
  void Count(const SaveCheckpointRequest& request,
             const absl::StatusOr<CheckpointStatus>& saved, absl::Time start);
  // Returns the checkpoint that the next one may take over from; nothing if it
  // is to be written whole.
  std::optional<SavedCheckpoint> FindFormer() const;
  // Makes `saved` the former checkpoint, unless damage was found since
  // `num_damages` was read.
  void SetFormer(const CheckpointStatus& saved, uint64_t num_damages);
  // Has the next checkpoint written whole, after damage was found: it may be in
  // files that checkpoints share.
  void ForgetFormer();
  uint64_t num_damages() const {
    MutexLock lock(&mutex_);
    return num_damages_;
  }
  // Returns the status of a new checkpoint, with its name and sequence number;
  // an empty `name` stands for a name by the number. Errors: InvalidArgument ·
  // AlreadyExists: there is one of that name.
  absl::StatusOr<CheckpointStatus> NextCheckpoint(const std::string& name,
                                                  bool automatic,
                                                  absl::Time start) const;
  absl::StatusOr<CheckpointStatus> Write(const SaveCheckpointRequest& request,
                                         CheckpointStatus status);
  // Renames the directory `partial` to `path`, and syncs the name; renames it
  // back if that fails.
  absl::Status Publish(const std::string& partial, const std::string& path);
  absl::StatusOr<CheckpointStatus> WriteTo(const std::string& directory,
                                           const SaveCheckpointRequest& request,
                                           const CheckpointStatus& status);
  // Restores the checkpoint into the empty store, and keeps `restoring()` up to
  // date.
  absl::Status RestoreAtStart(const CheckpointStatus& checkpoint,
                              const SavedCheckpoint& saved);
  // Reads the checkpoint of that name by `read`. Errors: Unavailable (another
  // caller reads) · InvalidArgument (the name) · NotFound · DataLoss · those of
  // `read`.
  absl::StatusOr<CheckpointStatus> Read(
      const std::string& name,
      absl::FunctionRef<absl::Status(const SavedCheckpoint&)> read);
  absl::Status Remove(const std::string& name);
  // Removes the automatic checkpoints that `keep` does not keep.
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

  // Held while a checkpoint is written, and while a restored one is committed.
  Mutex save_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  CondVar stopped_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  CheckpointCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::optional<RestoreProgress> restoring_ ABSL_GUARDED_BY(mutex_);
  // The last checkpoint with all namespaces that was written, or restored at
  // the start: the store has that, and what has changed since.
  std::optional<CheckpointStatus> former_ ABSL_GUARDED_BY(mutex_);
  // Counts how often damage has been found.
  uint64_t num_damages_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_CHECKPOINTS_H_
