// Says how much memory this process may use.

#ifndef TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_
#define TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_

#include <cstdint>
#include <istream>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns the bytes of the machine's memory, or the limit of the process's
// cgroups where that is less.
uint64_t MemorySizeBytes();

// Returns the least memory limit, in bytes, of the cgroup (version 2) that
// `membership`, a text such as /proc/self/cgroup, names, and of the cgroups
// above it up to the folder `root`; UINT64_MAX if none has a limit. In a
// container `root` may be the container's own folder, while the name is the
// host's: then only the limit of `root` itself is found.
uint64_t CgroupLimitBytes(absl::string_view root, std::istream& membership);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_MEMORY_SIZE_H_
