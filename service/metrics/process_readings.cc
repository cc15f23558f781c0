#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/metrics/readings.h"

namespace tensorkv {
namespace {

using prometheus::MetricType;

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns a field of /proc/self/stat, from the third on, as proc(5) numbers
// them: the second is the program's name, in parentheses.
double StatField(size_t number) {
  const std::string text = ReadFile("/proc/self/stat");
  const size_t end = text.rfind(") ");
  if (end == std::string::npos) return 0;
  const std::vector<std::string> fields = absl::StrSplit(text.substr(end), ' ');
  double value = 0;
  const size_t i = number - 2;
  if (i < fields.size()) (void)absl::SimpleAtod(fields[i], &value);
  return value;
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

std::vector<Reading> ProcessReadings() {
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const double start = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  return {
      {"process_cpu_seconds_total", "User and system CPU time of the process.",
       MetricType::Counter,
       [ticks] { return (StatField(14) + StatField(15)) / ticks; }},
      {"process_threads", "Threads of the process.", MetricType::Gauge,
       [] { return StatField(20); }},
      {"process_start_time_seconds",
       "When the server was made, since the epoch.", MetricType::Gauge,
       [start] { return start; }},
      {"process_virtual_memory_bytes", "Virtual memory of the process.",
       MetricType::Gauge, [] { return StatField(23); }},
      {"process_resident_memory_bytes", "Resident memory of the process.",
       MetricType::Gauge, [page] { return StatField(24) * page; }},
      {"process_open_fds", "Open descriptors of the process.",
       MetricType::Gauge, NumOpenFds},
      {"process_max_fds", "How many descriptors the process may have open.",
       MetricType::Gauge, MaxFds},
  };
}

}  // namespace tensorkv
