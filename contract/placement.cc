#include "contract/placement.h"

#include "absl/strings/str_cat.h"
#include "xxhash.h"

namespace tensorkv {

uint32_t PartitionOf(absl::string_view name_space, absl::string_view key,
                     uint32_t num_partitions) {
  if (name_space.empty()) name_space = "default";
  const std::string name =
      absl::StrCat(name_space, absl::string_view("\0", 1), key);
  return static_cast<uint32_t>(XXH3_64bits(name.data(), name.size()) %
                               num_partitions);
}

uint32_t OwnerOf(const ClusterPlacement& placement,
                 absl::string_view name_space, absl::string_view key) {
  return placement.owners[PartitionOf(
      name_space, key, static_cast<uint32_t>(placement.owners.size()))];
}

}  // namespace tensorkv
