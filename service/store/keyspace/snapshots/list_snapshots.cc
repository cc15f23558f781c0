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
#include "service/store/keyspace/snapshots/snapshot_status.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultSnapshotsOfPage = 100;
constexpr uint32_t kMaxSnapshotsOfPage = 1000;
// Bounds what a page has, and what it looks at.
constexpr size_t kMaxSnapshotPageBytes = 1 << 20;
constexpr size_t kMaxLooksOfPage = 4096;

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

absl::StatusOr<ListSnapshotsReply> PageOf(const NamespaceState& state,
                                          const ListSnapshotsRequest& request) {
  const int page_size = static_cast<int>(
      request.page_size() == 0
          ? kDefaultSnapshotsOfPage
          : std::min(request.page_size(), kMaxSnapshotsOfPage));
  ASSIGN_OR_RETURN(Place last, PlaceOf(request.page_token()));
  const std::string& prefix = request.series_prefix();
  ListSnapshotsReply reply;
  size_t bytes = 0;
  size_t num_looks = 0;
  MutexLock lock(&state.mutex);
  const absl::Duration now = state.Now();
  const Series::Map& all = state.named->series();
  for (auto it = all.lower_bound(std::max(prefix, last.series));
       it != all.end() && absl::StartsWith(it->first, prefix); ++it) {
    const Series& series = it->second;
    auto next = it->first == last.series
                    ? series.snapshots.upper_bound(last.number)
                    : series.snapshots.begin();
    for (; next != series.snapshots.end() && next->second.is_ready; ++next) {
      if (reply.snapshots_size() == page_size ||
          bytes > kMaxSnapshotPageBytes) {
        reply.set_next_page_token(last.ToToken());
        return reply;
      }
      v1::SnapshotStatus* const status = reply.add_snapshots();
      SetStatus(next->second, now, status);
      bytes += status->ByteSizeLong();
      last = {series.name, next->first};
      ++num_looks;
    }
    if (++num_looks > kMaxLooksOfPage) {
      last = {series.name, UINT64_MAX};
      reply.set_next_page_token(last.ToToken());
      return reply;
    }
  }
  return reply;
}

}  // namespace

void Namespace::ListSnapshots(ListSnapshotsRequest request, CallContext,
                              ReplyCallback<ListSnapshotsReply> done) {
  std::move(done)(PageOf(*state_, request));
}

}  // namespace tensorkv
