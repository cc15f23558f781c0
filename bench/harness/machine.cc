#include "bench/harness/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv::bench {
namespace {

// What follows `separator` on the first line of `file` that begins with
// `name`, without quotes and spaces around it.
std::string ReadField(const char* file, absl::string_view name,
                      char separator) {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    const size_t position = line.find(separator);
    if (!absl::StartsWith(line, name) || position == std::string::npos) {
      continue;
    }
    std::string value(absl::StripAsciiWhitespace(line.substr(position + 1)));
    if (value.size() >= 2 && value.front() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return value;
  }
  return "unknown";
}

std::string Kernel() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.sysname, " ", name.release);
}

std::string Memory() {
  const double bytes = 1.0 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return absl::StrFormat("%.1f GiB", bytes / (1 << 30));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> DescribeMachine() {
  return {
      {"processor", ReadField("/proc/cpuinfo", "model name", ':')},
      {"cores", absl::StrCat(sysconf(_SC_NPROCESSORS_ONLN))},
      {"memory", Memory()},
      {"kernel", Kernel()},
      {"distribution", ReadField("/etc/os-release", "PRETTY_NAME", '=')},
      {"gRPC", grpc::Version()},
      {"date", absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(),
                                absl::UTCTimeZone())},
  };
}

}  // namespace tensorkv::bench
