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
    MutexLock reading(&files->reading_);
    ASSIGN_OR_RETURN(Texts texts, files->reader_.Read(files->options_.timeout));
    RETURN_IF_ERROR(files->options_.apply(texts));
    files->applied_ = std::move(texts);
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
  alarm_ =
      alarms_.Schedule(alarms_.Now() + options_.period, [this] { OnAlarm(); });
}

void WatchedFiles::OnAlarm() {
  {
    MutexLock reading(&reading_);
    ReadOnce(/*at_once=*/false).IgnoreError();  // it is kept and reported
  }
  MutexLock lock(&mutex_);
  is_scheduled_ = false;
  if (is_stopping_) {
    stopped_.SignalAll();
  } else {
    Schedule();
  }
}

absl::Status WatchedFiles::Reload() {
  MutexLock reading(&reading_);
  return ReadOnce(/*at_once=*/true);
}

absl::Status WatchedFiles::ReloadUnlessTimedOut() {
  if (const absl::Status last = status(); absl::IsDeadlineExceeded(last)) {
    return last;
  }
  MutexLock reading(&reading_);
  if (const absl::Status last = status(); absl::IsDeadlineExceeded(last)) {
    return last;
  }
  return ReadOnce(/*at_once=*/true);
}

absl::Status WatchedFiles::ReadOnce(bool at_once) {
  absl::StatusOr<Texts> texts = reader_.Read(options_.timeout);
  if (absl::IsCancelled(texts.status())) return texts.status();
  const bool failed_before = std::exchange(has_failed_, !texts.ok());
  if (!texts.ok()) {
    found_.clear();
    // Somebody may be about to put another in its place.
    if (!at_once && !failed_before) return texts.status();
    SetStatus(texts.status(), /*has_applied=*/false);
    return texts.status();
  }
  const bool has_settled = at_once || SayTheSame(*texts, found_);
  found_ = *std::move(texts);
  if (SayTheSame(found_, applied_)) {
    SetStatus(absl::OkStatus(), /*has_applied=*/false);
    return absl::OkStatus();
  }
  if (!has_settled) return status();
  absl::Status status = options_.apply(found_);
  if (status.ok()) applied_ = found_;
  SetStatus(status, /*has_applied=*/status.ok());
  return status;
}

void WatchedFiles::SetStatus(const absl::Status& status, bool has_applied) {
  {
    MutexLock lock(&mutex_);
    if (has_applied) ++counts_.applied;
    const bool is_news = has_applied || status != status_;
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
