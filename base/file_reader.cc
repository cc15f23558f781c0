#include "base/file_reader.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

// More is no file of keys, tokens or rules.
constexpr size_t kMaxBytes = 1 << 20;

absl::StatusOr<std::string> ReadText(const WatchedFile& from) {
  const auto wrong = [&from](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(from.option, ": ", what));
  };
  errno = 0;
  std::ifstream file(from.path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  // A directory opens, and only fails to be read.
  if (!file || (!file.read(text.data(), text.size()) && !file.eof())) {
    return wrong(absl::StrCat("cannot read ", from.path, ": ",
                              errno == 0 ? "no text" : std::strerror(errno)));
  }
  text.resize(file.gcount());
  if (text.size() <= kMaxBytes) return text;
  return wrong(absl::StrCat(from.path, ": expected at most ", kMaxBytes,
                            " bytes, got more"));
}

}  // namespace

absl::StatusOr<std::vector<FileText>> ReadFiles(
    const std::vector<WatchedFile>& files) {
  std::vector<FileText> texts;
  for (const WatchedFile& file : files) {
    FileText& read = texts.emplace_back(FileText{file.option, file.path, ""});
    if (file.path.empty()) continue;
    ASSIGN_OR_RETURN(read.text, ReadText(file));
  }
  return texts;
}

// Outlives a reader whose thread stands still.
struct FileReader::State {
  explicit State(std::vector<WatchedFile> files) : files(std::move(files)) {}

  // Reads whenever that is asked for, until Stop.
  void Run();
  // Waits until the thread reads no more, for a Read that has begun at `begin`.
  // Errors: as of Read.
  absl::Status AwaitIdle(SteadyTime begin, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status TakesTooLong(absl::Duration timeout) const;

  const std::vector<WatchedFile> files;
  Mutex mutex;
  CondVar changed;
  bool is_reading ABSL_GUARDED_BY(mutex) = false;
  bool is_stopping ABSL_GUARDED_BY(mutex) = false;
  // Holds the result of the last read that has ended.
  absl::StatusOr<std::vector<FileText>> texts ABSL_GUARDED_BY(mutex);
};

void FileReader::State::Run() {
  for (;;) {
    {
      MutexLock lock(&mutex);
      while (!is_reading && !is_stopping) changed.Wait(&mutex);
      if (is_stopping) return;
    }
    absl::StatusOr<std::vector<FileText>> read = ReadFiles(files);
    {
      MutexLock lock(&mutex);
      texts = std::move(read);
      is_reading = false;
    }
    changed.SignalAll();
  }
}

absl::Status FileReader::State::AwaitIdle(SteadyTime begin,
                                          absl::Duration timeout) {
  absl::Duration left = timeout;
  while (is_reading && !is_stopping && left > absl::ZeroDuration()) {
    changed.WaitWithTimeout(&mutex, left);
    left = timeout - absl::FromChrono(SteadyClock::now() - begin);
  }
  if (is_stopping) return absl::CancelledError("files are read no more");
  return is_reading ? TakesTooLong(timeout) : absl::OkStatus();
}

absl::Status FileReader::State::TakesTooLong(absl::Duration timeout) const {
  std::string options;
  for (const WatchedFile& file : files) {
    if (file.path.empty()) continue;
    absl::StrAppend(&options, options.empty() ? "" : ", ", file.option);
  }
  return absl::DeadlineExceededError(absl::StrCat(
      options, ": expected to be read within ", absl::FormatDuration(timeout),
      ", got no answer of the file system"));
}

FileReader::FileReader(std::vector<WatchedFile> files)
    : state_(std::make_shared<State>(std::move(files))),
      thread_([state = state_] { state->Run(); }) {}

FileReader::~FileReader() {
  Stop();
  bool stands_still = false;
  {
    MutexLock lock(&state_->mutex);
    stands_still = state_->is_reading;
  }
  stands_still ? thread_.detach() : thread_.join();
}

absl::StatusOr<std::vector<FileText>> FileReader::Read(absl::Duration timeout) {
  const SteadyTime begin = SteadyClock::now();
  State& state = *state_;
  MutexLock lock(&state.mutex);
  // A read that an earlier call has begun may be older than this call.
  RETURN_IF_ERROR(state.AwaitIdle(begin, timeout));
  state.is_reading = true;
  state.changed.SignalAll();
  RETURN_IF_ERROR(state.AwaitIdle(begin, timeout));
  return std::move(state.texts);
}

void FileReader::Stop() {
  {
    MutexLock lock(&state_->mutex);
    state_->is_stopping = true;
  }
  state_->changed.SignalAll();
}

}  // namespace tensorkv
