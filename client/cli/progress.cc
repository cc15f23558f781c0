#include "client/cli/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/metadata_text.h"

namespace tensorkv {
namespace {

constexpr uint64_t kBarWidth = 20;

// Begins a line anew, without what was there.
constexpr absl::string_view kClearedLine = "\r\x1b[K";

}  // namespace

std::string ProgressText(uint64_t bytes, uint64_t total_bytes,
                         absl::Duration elapsed) {
  const double share =
      total_bytes == 0
          ? 1
          : std::min(1.0, static_cast<double>(bytes) / total_bytes);
  const auto filled = static_cast<size_t>(share * kBarWidth);
  std::string text = absl::StrCat(
      "[", std::string(filled, '#'), std::string(kBarWidth - filled, ' '), "] ",
      static_cast<int>(share * 100), "% of ", ByteText(total_bytes));
  const double seconds = absl::ToDoubleSeconds(elapsed);
  if (bytes == 0 || seconds <= 0) return text;
  const double rate = bytes / seconds;
  const double left = (total_bytes - std::min(bytes, total_bytes)) / rate;
  absl::StrAppend(&text, ", ", ByteText(static_cast<uint64_t>(rate)), "/s, ",
                  absl::FormatDuration(
                      absl::Trunc(absl::Seconds(left + 0.5), absl::Seconds(1))),
                  " left");
  return text;
}

void Progress::Add(uint64_t bytes) {
  bytes_ += bytes;
  if (out_ == nullptr) return;
  *out_ << kClearedLine
        << ProgressText(bytes_, total_bytes_, absl::Now() - start_)
        << std::flush;
}

Progress::~Progress() {
  if (out_ != nullptr && bytes_ > 0) *out_ << kClearedLine << std::flush;
}

}  // namespace tensorkv
