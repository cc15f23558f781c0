#include "examples/fashion_mnist/step_report.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace tensorkv::fashion_mnist {
namespace {

static_assert(std::is_trivially_copyable_v<StepReport>);
static_assert(sizeof(StepReport) <= PIPE_BUF, "written as one piece");

absl::Status PipeError(const char* action) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", action, " step reports: ", strerror(errno)));
}

}  // namespace

absl::Status WriteReport(int fd, const StepReport& report) {
  ssize_t written = 0;
  do {
    written = write(fd, &report, sizeof(report));
  } while (written < 0 && errno == EINTR);
  return written < 0 ? PipeError("write") : absl::OkStatus();
}

absl::StatusOr<std::vector<StepReport>> ReportReader::Read() {
  std::vector<StepReport> reports;
  while (reports.empty()) {
    const ssize_t count =
        read(fd_, buffer_.data() + used_, buffer_.size() - used_);
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return PipeError("read");
    used_ += count;
    reports = TakeWholeReports();
  }
  return reports;
}

std::vector<StepReport> ReportReader::TakeWholeReports() {
  std::vector<StepReport> reports(used_ / sizeof(StepReport));
  const size_t taken = reports.size() * sizeof(StepReport);
  if (taken > 0) memcpy(reports.data(), buffer_.data(), taken);
  used_ -= taken;
  memmove(buffer_.data(), buffer_.data() + taken, used_);
  return reports;
}

}  // namespace tensorkv::fashion_mnist
