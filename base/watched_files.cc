#include "base/watched_files.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

bool SayTheSame(const std::vector<FileText>& a,
                const std::vector<FileText>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const FileText& one, const FileText& other) {
                      return one.text == other.text;
                    });
}

}  // namespace

absl::StatusOr<std::unique_ptr<WatchedFiles>> WatchedFiles::Create(
    Options options, Alarms* alarms) {
  std::unique_ptr<WatchedFiles> files(
      new WatchedFiles(std::move(options), alarms));
  {
    MutexLock looking(&files->looking_);
    ASSIGN_OR_RETURN(Texts texts,
                     files->reader_.Read(files->options_.patience));
    RETURN_IF_ERROR(files->options_.take(texts));
    files->taken_ = std::move(texts);
  }
  MutexLock lock(&files->mutex_);
  files->Schedule();
  return files;
}

void WatchedFiles::Stop() {
  reader_.Stop();
  MutexLock lock(&mutex_);
  is_stopping_ = true;
  if (is_scheduled_ && alarms_.Cancel(alarm_)) is_scheduled_ = false;
  // It has started: let it end.
  while (is_scheduled_) stopped_.Wait(&mutex_);
}

void WatchedFiles::Schedule() {
  is_scheduled_ = true;
  alarm_ = alarms_.Schedule(alarms_.Now() + options_.period,
                            [this] { LookAgain(); });
}

void WatchedFiles::LookAgain() {
  {
    MutexLock looking(&looking_);
    LookOnce(/*at_once=*/false).IgnoreError();  // it is kept and reported
  }
  MutexLock lock(&mutex_);
  is_scheduled_ = false;
  if (is_stopping_) {
    stopped_.SignalAll();
  } else {
    Schedule();
  }
}

absl::Status WatchedFiles::Look() {
  MutexLock looking(&looking_);
  return LookOnce(/*at_once=*/true);
}

absl::Status WatchedFiles::LookUnlessLate() {
  if (const absl::Status last = status(); absl::IsDeadlineExceeded(last)) {
    return last;
  }
  MutexLock looking(&looking_);
  if (const absl::Status last = status(); absl::IsDeadlineExceeded(last)) {
    return last;
  }
  return LookOnce(/*at_once=*/true);
}

absl::Status WatchedFiles::LookOnce(bool at_once) {
  absl::StatusOr<Texts> texts = reader_.Read(options_.patience);
  if (absl::IsCancelled(texts.status())) return texts.status();
  const bool failed_before = std::exchange(has_failed_, !texts.ok());
  if (!texts.ok()) {
    found_.clear();
    // Somebody may be about to put another in its place.
    if (!at_once && !failed_before) return texts.status();
    End(texts.status(), /*has_taken=*/false);
    return texts.status();
  }
  const bool has_settled = at_once || SayTheSame(*texts, found_);
  found_ = *std::move(texts);
  if (SayTheSame(found_, taken_)) {
    End(absl::OkStatus(), /*has_taken=*/false);
    return absl::OkStatus();
  }
  if (!has_settled) return status();
  absl::Status status = options_.take(found_);
  if (status.ok()) taken_ = found_;
  End(status, /*has_taken=*/status.ok());
  return status;
}

void WatchedFiles::End(const absl::Status& status, bool has_taken) {
  {
    MutexLock lock(&mutex_);
    if (has_taken) ++counts_.taken;
    const bool is_news = has_taken || status != status_;
    status_ = status;
    if (!is_news) return;
    if (!status.ok()) ++counts_.refused;
  }
  if (options_.changed) options_.changed(status);
}

absl::Status WatchedFiles::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

WatchedFiles::Counts WatchedFiles::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace tensorkv
