#include "contract/placement.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "contract/slices.h"
#include "xxhash.h"

namespace tensorkv {

uint32_t PartitionOf(absl::string_view name_space, absl::string_view key,
                     uint32_t num_partitions) {
  if (name_space.empty()) name_space = "default";
  uint32_t slice = 0;
  if (const std::optional<SliceName> name = ParseSliceName(key)) {
    slice = name->index;
    key = name->key;
  }
  const std::string name =
      absl::StrCat(name_space, absl::string_view("\0", 1), key);
  const uint64_t hash = XXH3_64bits(name.data(), name.size());
  return static_cast<uint32_t>((hash % num_partitions + slice) %
                               num_partitions);
}

uint32_t OwnerOf(const ClusterPlacement& placement,
                 absl::string_view name_space, absl::string_view key) {
  return placement.owners[PartitionOf(
      name_space, key, static_cast<uint32_t>(placement.owners.size()))];
}

std::vector<uint32_t> PartitionsOf(const ClusterPlacement& placement,
                                   uint32_t server) {
  std::vector<uint32_t> partitions;
  for (uint32_t i = 0; i < placement.owners.size(); ++i) {
    if (placement.owners[i] == server) partitions.push_back(i);
  }
  return partitions;
}

uint64_t DigestOf(absl::Span<const uint32_t> partitions) {
  static_assert(std::endian::native == std::endian::little);
  return XXH3_64bits(partitions.data(), partitions.size() * sizeof(uint32_t));
}

uint64_t DefaultUidOf(absl::string_view cluster) {
  return std::max<uint64_t>(XXH3_64bits(cluster.data(), cluster.size()), 1);
}

uint32_t NumLost(const ClusterPlacement& placement) {
  size_t num = 0;
  for (const LostPartitions& lost : placement.lost) {
    num += lost.partitions.size();
  }
  return static_cast<uint32_t>(num);
}

}  // namespace tensorkv
