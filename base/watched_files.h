// Files that may change while the process runs.

#ifndef TENSORKV_BASE_WATCHED_FILES_H_
#define TENSORKV_BASE_WATCHED_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/file_reader.h"
#include "base/mutex.h"

namespace tensorkv {

// Reads some small files again and again, and has their texts applied when they
// have changed. Wrong texts are never applied: the last right ones stay in use,
// and the files are read until they are right. Thread-safe.
//
// A change is applied, and a file that cannot be read is wrong, once two reads
// in a row have found the same: half of what somebody is writing is not
// applied. Files that cannot be read in time, because a file system blocks,
// count as wrong.
class WatchedFiles {
 public:
  // Puts the texts of the files, one for each, in their order, into use, or
  // returns what is wrong with them. Called by one thread at a time.
  using Apply = std::function<absl::Status(const std::vector<FileText>& texts)>;

  struct Options {
    std::vector<WatchedFile> files;
    Apply apply;
    // From the end of one read to the next.
    absl::Duration period = absl::Seconds(2);
    // One read waits so long for the file system.
    absl::Duration timeout = absl::Seconds(5);
    // Called when status() has changed: once with what is wrong, and with OK
    // when the files are right again or new texts have been applied. Must not
    // block. May be null.
    std::function<void(const absl::Status& status)> changed;
  };

  // Reads the files, has their texts applied, and reads them once a period from
  // then on, on the thread of `alarms`, which outlives the result.
  // Errors: InvalidArgument, naming the option: a file cannot be read ·
  // DeadlineExceeded: not in time · those of Apply.
  static absl::StatusOr<std::unique_ptr<WatchedFiles>> Create(Options options,
                                                              Alarms* alarms);
  ~WatchedFiles() { Stop(); }
  // Reads the files no more. Waits for a call of Apply under way, but for no
  // file.
  void Stop();

  // Reads the files now, and has their texts applied if they have changed,
  // without waiting for a second read. Blocks meanwhile.
  // Errors: those of Create · Cancelled after Stop.
  absl::Status Reload();
  // Reads the files as Reload does, unless the last read was too late, be it
  // one for which this call has waited: then returns the DeadlineExceeded of
  // that read. So many calls wait no longer than one while a file system
  // blocks.
  absl::Status ReloadUnlessTimedOut();

  // Returns OK if the last read found the texts that are in use, or a change
  // that the next read has to confirm; else what is wrong.
  absl::Status status() const;

  // Returns how often changed texts were applied, and how often files became
  // wrong.
  struct Counts {
    uint64_t applied = 0;
    uint64_t refused = 0;
  };
  Counts counts() const;

 private:
  using Texts = std::vector<FileText>;

  WatchedFiles(Options options, Alarms* alarms)
      : options_(std::move(options)),
        alarms_(*alarms),
        reader_(options_.files) {}

  // `at_once`: applies a change that only this read has found.
  absl::Status ReadOnce(bool at_once) ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_);
  // Stores the outcome of a read in status_ and counts_, and calls `changed` if
  // it differs from the last.
  void SetStatus(const absl::Status& status, bool has_applied)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads the files, and schedules the next read.
  void OnAlarm();

  const Options options_;
  Alarms& alarms_;
  FileReader reader_;

  // Held while the files are read; locked before mutex_.
  Mutex reading_;
  // The texts that are in use.
  Texts applied_ ABSL_GUARDED_BY(reading_);
  // The texts that the last read has found; empty if it failed.
  Texts found_ ABSL_GUARDED_BY(reading_);
  // True if the last read failed.
  bool has_failed_ ABSL_GUARDED_BY(reading_) = false;

  mutable Mutex mutex_;
  CondVar stopped_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_scheduled_ ABSL_GUARDED_BY(mutex_) = false;
  Alarms::Id alarm_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_BASE_WATCHED_FILES_H_
