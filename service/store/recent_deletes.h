// Names that were to be deleted a short while ago.

#ifndef TENSORKV_SERVICE_STORE_RECENT_DELETES_H_
#define TENSORKV_SERVICE_STORE_RECENT_DELETES_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tensorkv {

// Remembers the last names that were deleted, and when. Not thread-safe.
class RecentDeletes {
 public:
  // How many names are remembered.
  static constexpr size_t kMaxNames = 256;

  // Remembers that the name was deleted at `now`; forgets the oldest one of
  // more than kMaxNames. REQUIRES: the name is one that a namespace may have.
  void Add(absl::string_view name, absl::Duration now);

  // Returns whether the name was deleted at `since` or later; also true where
  // too many names were deleted since then to remember them.
  bool MayBeDeletedSince(absl::string_view name, absl::Duration since) const;

 private:
  std::map<std::string, absl::Duration> times_;
  // When the latest of those was deleted that are remembered no more.
  absl::Duration last_forgotten_ = -absl::InfiniteDuration();
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_RECENT_DELETES_H_
