// List: pages through the keys of a namespace.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/store/keyspace/key_status.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultPageSize = 1000;
constexpr uint32_t kMaxPageSize = 10000;

// Bounds the statuses of a page.
constexpr uint64_t kMaxPageBytes = 4 << 20;

}  // namespace

absl::StatusOr<ListReply> Namespace::List(const ListRequest& request) const {
  const size_t page_size = request.page_size() == 0
                               ? kDefaultPageSize
                               : std::min(request.page_size(), kMaxPageSize);
  if (!request.page_token().empty()) {
    if (absl::Status status = CheckKey(request.page_token()); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("page_token: ", status.message()));
    }
  }
  ListReply reply;
  std::vector<KeyMetadata> page;
  uint64_t bytes = 0;
  std::string last = request.page_token();
  for (bool has_more = true; has_more;) {
    MutexLock large_lock(&state_->large_calls_mutex);
    MutexLock lock(&state_->mutex);
    const std::vector<StoredKey*> keys =
        state_->keys.List(request.prefix(), last, kKeysPerLock);
    has_more = keys.size() == kKeysPerLock;
    if (has_more) last = std::string(keys.back()->name());
    for (const StoredKey* key : keys) {
      page.push_back(MetadataOf(*key));
      bytes += StatusBytes(page.back());
      const bool fits = page.size() <= page_size && bytes <= kMaxPageBytes;
      if (fits || page.size() == 1) continue;
      // It shows that another page follows.
      page.pop_back();
      reply.set_next_page_token(page.back().name);
      has_more = false;
      break;
    }
  }
  AddStatuses(std::move(page), *reply.mutable_keys());
  return reply;
}

}  // namespace tensorkv
