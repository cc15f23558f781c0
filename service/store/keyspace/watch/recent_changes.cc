#include "service/store/keyspace/watch/recent_changes.h"

namespace tensorkv {

void RecentChanges::Append(ChangeKind kind, absl::string_view name,
                           uint64_t number, uint64_t revision) {
  // It can be read since now, though its revision was told before maybe.
  if (kind == ChangeKind::kSnapshot) taken_ = 0;
  if (batch_.is_lost) return;
  const uint64_t bytes = batch_.names.size() + name.size() +
                         (batch_.entries.size() + 1) * sizeof(Entry);
  if (bytes > max_bytes_) {
    batch_ = {.is_lost = true};
    return;
  }
  batch_.entries.push_back({.revision = revision,
                            .number = number,
                            .name_begin = batch_.names.size(),
                            .name_size = static_cast<uint16_t>(name.size()),
                            .kind = kind});
  batch_.names.append(name.data(), name.size());
}

}  // namespace tensorkv
