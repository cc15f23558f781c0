#include "service/metrics/process_collectable.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "service/metrics/families.h"

namespace tensorkv {
namespace {

using prometheus::MetricType;

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The fields of /proc/self/stat from the third on, as proc(5) numbers them:
// the second is the program's name, in parentheses.
class Stat {
 public:
  Stat() {
    const std::string text = ReadFile("/proc/self/stat");
    const size_t end = text.rfind(") ");
    if (end != std::string::npos)
      fields_ = absl::StrSplit(text.substr(end), ' ');
  }

  double Field(size_t number) const {
    double value = 0;
    const size_t i = number - 2;
    if (i < fields_.size()) (void)absl::SimpleAtod(fields_[i], &value);
    return value;
  }

 private:
  std::vector<std::string> fields_;
};

// Seconds since the epoch; 0 if the system does not say.
double BootTime() {
  const std::string text = ReadFile("/proc/stat");
  const size_t begin = text.find("\nbtime ");
  double seconds = 0;
  if (begin != std::string::npos) {
    const size_t value = begin + 7;
    (void)absl::SimpleAtod(text.substr(value, text.find('\n', value) - value),
                           &seconds);
  }
  return seconds;
}

double NumOpenFds() {
  std::error_code error;
  const std::filesystem::directory_iterator fds("/proc/self/fd", error);
  if (error) return 0;
  // Less the one that lists them.
  return static_cast<double>(std::distance(begin(fds), end(fds))) - 1;
}

double MaxFds() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessCollectable::Collect() const {
  const Stat stat;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  return {
      SingleMetric("process_cpu_seconds_total",
                   "User and system CPU time of the process.",
                   MetricType::Counter,
                   (stat.Field(14) + stat.Field(15)) / ticks),
      SingleMetric("process_threads", "Threads of the process.",
                   MetricType::Gauge, stat.Field(20)),
      SingleMetric("process_start_time_seconds",
                   "When the process started, since the epoch.",
                   MetricType::Gauge, BootTime() + stat.Field(22) / ticks),
      SingleMetric("process_virtual_memory_bytes",
                   "Virtual memory of the process.", MetricType::Gauge,
                   stat.Field(23)),
      SingleMetric("process_resident_memory_bytes",
                   "Resident memory of the process.", MetricType::Gauge,
                   stat.Field(24) * page),
      SingleMetric("process_open_fds", "Open descriptors of the process.",
                   MetricType::Gauge, NumOpenFds()),
      SingleMetric("process_max_fds",
                   "How many descriptors the process may have open.",
                   MetricType::Gauge, MaxFds()),
  };
}

}  // namespace tensorkv
