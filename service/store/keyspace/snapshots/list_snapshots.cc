// ListSnapshots: pages through the snapshots of a namespace.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/snapshots/snapshot_reference.h"
#include "service/store/keyspace/snapshots/snapshot_status.h"
#include "service/store/looks.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultSnapshotsOfPage = 100;
constexpr uint32_t kMaxSnapshotsOfPage = 1000;
// Bound what a page has, how often it locks the mutex, and what it adds each
// time.
constexpr size_t kMaxSnapshotPageBytes = 1 << 20;
constexpr size_t kSnapshotBytesPerLock = 64 << 10;
constexpr int kMaxLocksOfSnapshotPage = 32;

// A place in the order of pages: after that number of that series. No name has
// the character that is between the two in a token.
struct Place {
  std::string series;
  uint64_t number = 0;

  std::string ToToken() const {
    return absl::StrFormat("%s\n%020d", series, number);
  }
};

absl::StatusOr<Place> PlaceOf(absl::string_view token) {
  Place place;
  if (token.empty()) return place;
  const size_t end = token.find('\n');
  if (end == token.npos ||
      !absl::SimpleAtoi(token.substr(end + 1), &place.number)) {
    return absl::InvalidArgumentError(
        "page_token: expected one that a page has given");
  }
  place.series = std::string(token.substr(0, end));
  return place;
}

// A page, and up to where it has come.
struct Page {
  int size = 0;
  Place last;
  size_t bytes = 0;
  ListSnapshotsReply reply;

  bool is_full() const {
    return reply.snapshots_size() == size || bytes > kMaxSnapshotPageBytes;
  }
};

// Adds what one locking of the mutex may add. Returns whether to go on; sets
// the token if the page is full and another follows. Errors: those of
// CheckIsHome.
absl::StatusOr<bool> AddSome(const NamespaceState& state,
                             const std::string& prefix, Page& page) {
  const size_t max_bytes = page.bytes + kSnapshotBytesPerLock;
  size_t num_series = 0;
  MutexLock lock(&state.mutex);
  RETURN_IF_ERROR(CheckIsHome(state));
  const absl::Duration now = state.Now();
  const Series::Map& all = state.named->series();
  for (auto it = all.lower_bound(std::max(prefix, page.last.series));
       it != all.end() && absl::StartsWith(it->first, prefix); ++it) {
    const Series& series = it->second;
    auto next = it->first == page.last.series
                    ? series.snapshots.upper_bound(page.last.number)
                    : series.snapshots.begin();
    for (; next != series.snapshots.end(); ++next) {
      if (!next->second.is_ready) continue;
      if (page.is_full()) page.reply.set_next_page_token(page.last.ToToken());
      if (page.is_full() || page.bytes > max_bytes) return !page.is_full();
      CountLook();
      v1::SnapshotStatus* const status = page.reply.add_snapshots();
      SetStatus(next->second, now, status);
      page.bytes += status->ByteSizeLong();
      page.last = {series.name, next->first};
    }
    if (++num_series < kKeysPerLock) continue;
    page.last = {series.name, UINT64_MAX};
    return true;
  }
  return false;
}

absl::StatusOr<ListSnapshotsReply> PageOf(const NamespaceState& state,
                                          const ListSnapshotsRequest& request) {
  Page page;
  page.size = static_cast<int>(
      request.page_size() == 0
          ? kDefaultSnapshotsOfPage
          : std::min(request.page_size(), kMaxSnapshotsOfPage));
  ASSIGN_OR_RETURN(page.last, PlaceOf(request.page_token()));
  bool has_more = true;
  for (int num_locks = 0; has_more && num_locks < kMaxLocksOfSnapshotPage;
       ++num_locks) {
    ASSIGN_OR_RETURN(has_more, AddSome(state, request.series_prefix(), page));
  }
  if (has_more) page.reply.set_next_page_token(page.last.ToToken());
  return std::move(page.reply);
}

}  // namespace

void Namespace::ListSnapshots(ListSnapshotsRequest request, CallContext,
                              ReplyCallback<ListSnapshotsReply> done) {
  std::move(done)(PageOf(*state_, request));
}

}  // namespace tensorkv
