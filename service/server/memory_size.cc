#include "service/server/memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

uint64_t MemorySizeBytes() {
  const uint64_t machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream membership("/proc/self/cgroup");
  return std::min(machine, CgroupLimitBytes("/sys/fs/cgroup", membership));
}

uint64_t CgroupLimitBytes(absl::string_view root, std::istream& membership) {
  std::string line;
  while (std::getline(membership, line) && !absl::StartsWith(line, "0::/")) {
  }
  absl::string_view path;
  if (membership) path = absl::string_view(line).substr(3);
  uint64_t least = UINT64_MAX;
  while (true) {
    std::ifstream file(absl::StrCat(root, path, "/memory.max"));
    uint64_t limit = 0;
    // "max" is no number.
    if (file >> limit) least = std::min(least, limit);
    if (path.empty()) return least;
    path = path.substr(0, path.rfind('/'));
  }
}

}  // namespace tensorkv
