// List: pages through the keys of a namespace.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/key_status.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/list_at.h"
#include "service/store/keyspace/snapshots/snapshot_reference.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultPageSize = 1000;
constexpr uint32_t kMaxPageSize = 10000;

// Bound the statuses of a page, and how often it locks the mutex for names:
// more often than present keys need.
constexpr uint64_t kMaxPageBytes = 4 << 20;
constexpr int kMaxLocksOfPage = 16;
static_assert(kMaxLocksOfPage * kKeysPerLock > kMaxPageSize);

// Returns the next keys after `*last`, and sets that to the last one that was
// looked at; clears it if these were all. Errors: those of FindSnapshot.
absl::StatusOr<std::vector<KeyMetadata>> NextKeys(NamespaceState& state,
                                                  const ListRequest& request,
                                                  std::string* last,
                                                  ListReply& reply) {
  MutexLock large_lock(&state.large_calls_mutex);
  MutexLock lock(&state.mutex);
  if (request.has_at()) {
    ASSIGN_OR_RETURN(
        NamedSnapshot* const snapshot,
        FindSnapshot(
            state,
            reply.snapshot_number() == 0 || request.at().uid() != 0
                ? request.at()
                : SnapshotOf(request.at().series(), reply.snapshot_number())));
    if (snapshot == nullptr) return NoSuchSeries(request.at().series());
    reply.set_snapshot_number(snapshot->number);
    return ListAt(state, *snapshot, request.prefix(), last);
  }
  std::vector<KeyMetadata> keys;
  const std::vector<StoredKey*> found =
      state.keys.List(request.prefix(), *last, kKeysPerLock);
  for (const StoredKey* key : found) keys.push_back(MetadataOf(*key));
  *last = found.size() == kKeysPerLock ? keys.back().name : "";
  return keys;
}

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
  if (request.has_at()) RETURN_IF_ERROR(CheckReference(request.at()));
  ListReply reply;
  std::vector<KeyMetadata> page;
  uint64_t bytes = 0;
  std::string last = request.page_token();
  bool has_more = true;
  for (int num_locks = 0; has_more; ++num_locks) {
    if (num_locks == kMaxLocksOfPage) {
      reply.set_next_page_token(last);
      break;
    }
    ASSIGN_OR_RETURN(std::vector<KeyMetadata> keys,
                     NextKeys(*state_, request, &last, reply));
    has_more = !last.empty();
    for (KeyMetadata& key : keys) {
      page.push_back(std::move(key));
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
