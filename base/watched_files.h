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

// Reads some small files again and again, and has what they say taken when it
// has changed. What is wrong is never taken: then what was taken last stays,
// and the files are looked at until they are right. Thread-safe.
//
// What has changed is taken, and what cannot be read is wrong, once two looks,
// one after the other, have found the same: what somebody is writing is not
// taken in parts. What cannot be read in time, because a file system stands
// still, counts as wrong.
class WatchedFiles {
 public:
  // Takes what the files say, one text for each, in their order, or says what
  // is wrong with it. Called by one thread at a time.
  using Take = std::function<absl::Status(const std::vector<FileText>& texts)>;

  struct Options {
    std::vector<WatchedFile> files;
    Take take;
    // From one look to the next.
    absl::Duration period = absl::Seconds(2);
    // For how long a look waits for the file system.
    absl::Duration patience = absl::Seconds(5);
    // Hears once what is wrong with files that have changed, and OK when what
    // they say has been taken. Must not block. Null: nobody does.
    std::function<void(const absl::Status& status)> changed;
  };

  // Reads the files, and has what they say taken. Both outlive the result.
  // Errors: InvalidArgument, naming the option: a file cannot be read ·
  // DeadlineExceeded: not in time · those of Take.
  static absl::StatusOr<std::unique_ptr<WatchedFiles>> Create(Options options,
                                                              Alarms* alarms);
  ~WatchedFiles() { Stop(); }
  // Looks no more. Waits for what Take does, but for no file.
  void Stop();

  // Looks now, and has what is there taken even if it is there only since then.
  // Errors: as of Create · Cancelled after Stop.
  absl::Status Look();
  // Looks as Look does; but where the last look was too late for the file
  // system, be it one that this has waited for, returns its DeadlineExceeded,
  // and leaves the files to the next look of the alarms. So many calls wait as
  // long as one.
  absl::Status LookUnlessLate();

  // Returns OK if the last look has found what is in use, or what is about to
  // be, and else what is wrong.
  absl::Status status() const;

  // How often what had changed was taken, and how often it was wrong.
  struct Counts {
    uint64_t taken = 0;
    uint64_t refused = 0;
  };
  Counts counts() const;

 private:
  using Texts = std::vector<FileText>;

  WatchedFiles(Options options, Alarms* alarms)
      : options_(std::move(options)),
        alarms_(*alarms),
        reader_(options_.files) {}

  absl::Status LookOnce(bool at_once) ABSL_EXCLUSIVE_LOCKS_REQUIRED(looking_);
  // Remembers what a look has come to, and reports it if it is news.
  void End(const absl::Status& status, bool has_taken)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookAgain();

  const Options options_;
  Alarms& alarms_;
  FileReader reader_;

  // Held while the files are looked at; locked before mutex_.
  Mutex looking_;
  Texts taken_ ABSL_GUARDED_BY(looking_);
  // What the last look has found, if that was not taken.
  Texts found_ ABSL_GUARDED_BY(looking_);
  // Whether the last look could not read one.
  bool has_failed_ ABSL_GUARDED_BY(looking_) = false;

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
