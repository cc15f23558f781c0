// Lists of the keys of several servers.

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/cluster_keys.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {
namespace {

// Ends a page before its first slice: it is the last page then, since no other
// key comes after slices.
void EndBeforeSlices(ListReply& page) {
  auto& keys = *page.mutable_keys();
  const auto end = absl::c_find_if(keys, [](const KeyStatus& status) {
    return absl::StartsWith(status.key(), kSliceMark);
  });
  if (end == keys.end()) return;
  keys.erase(end, keys.end());
  page.clear_next_page_token();
}

// Returns a Stat of the keys of `layouts` that belong on the page that the
// request asks for, and says in `page` where the next one of such keys begins.
// `end` is where the page of other keys ends; empty: it is the last.
StatRequest StatOfPage(const SplitLayouts& layouts, const ListRequest& request,
                       const std::string& end, ListReply& page) {
  StatRequest stat;
  stat.set_namespace_(request.namespace_());
  stat.set_namespace_uid(request.namespace_uid());
  if (request.has_at()) *stat.mutable_at() = request.at();
  for (const auto& [key, layout] : layouts) {
    if (!absl::StartsWith(key, request.prefix())) continue;
    if (!request.page_token().empty() && key <= request.page_token()) continue;
    if (!end.empty() && key > end) break;
    // Their statuses take a call about every slice.
    const auto num_keys = static_cast<uint32_t>(stat.keys_size());
    if (request.page_size() > 0 && num_keys == request.page_size()) {
      page.set_next_page_token(stat.keys().rbegin()[0]);
      break;
    }
    stat.add_keys(key);
  }
  return stat;
}

}  // namespace

Task<absl::StatusOr<ListReply>> ClusterKeys::List(const ListRequest& request,
                                                  const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  std::vector<ListReply> pages(1);
  CO_ASSIGN_OR_RETURN(pages[0], co_await ListStored(request, limit));
  // A caller who asks for slices gets them.
  if (placement->split_bytes == 0 ||
      absl::StartsWith(request.prefix(), kSliceMark)) {
    co_return std::move(pages[0]);
  }
  EndBeforeSlices(pages[0]);
  const uint64_t snapshot_number = pages[0].snapshot_number();
  CO_ASSIGN_OR_RETURN(
      ListReply large,
      co_await ListInSlices(request, pages[0].next_page_token(), limit));
  pages.push_back(std::move(large));
  ListReply page = MergePages(std::move(pages), request.page_size());
  page.set_snapshot_number(snapshot_number);
  co_return page;
}

Task<absl::StatusOr<ListReply>> ClusterKeys::ListInSlices(
    const ListRequest& request, const std::string& end,
    const CallLimit& limit) {
  Task<absl::StatusOr<SplitLayoutsPtr>> read =
      request.has_at()
          ? snapshots_.Layouts(request.namespace_(), request.at(), limit)
          : Refresh(request.namespace_(), limit);
  CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts, co_await read);
  ListReply page;
  // There is no such namespace any more.
  if (layouts == nullptr) co_return page;
  const StatRequest stat = StatOfPage(*layouts, request, end, page);
  if (stat.keys().empty()) co_return page;
  const auto ask = [&](const StatRequest& keys) {
    return request.has_at() ? snapshots_.Read(keys, limit)
                            : MakeBy(layouts.get(), keys, limit);
  };
  absl::StatusOr<StatReply> found = co_await ask(stat);
  if (ReasonOf(found.status()) != Reason::kKeyNotFound) {
    CO_RETURN_IF_ERROR(found.status());
    page.mutable_keys()->Swap(found->mutable_keys());
    co_return page;
  }
  // The page shows the keys that have all their slices.
  for (const std::string& key : stat.keys()) {
    StatRequest one = stat;
    one.clear_keys();
    one.add_keys(key);
    found = co_await ask(one);
    if (ReasonOf(found.status()) == Reason::kKeyNotFound) continue;
    CO_RETURN_IF_ERROR(found.status());
    page.mutable_keys()->MergeFrom(found->keys());
  }
  co_return page;
}

Task<absl::StatusOr<ListReply>> ClusterKeys::ListStored(
    const ListRequest& request, const CallLimit& limit) {
  absl::StatusOr<ListReply> page = co_await ListOnce(request, limit);
  // One that was asked is in the cluster no more: the others are asked again.
  for (int i = 1; i < kMostAttempts && IsAtWrongServer(page.status()); ++i) {
    page = co_await ListOnce(request, limit);
  }
  co_return std::move(page);
}

Task<absl::StatusOr<ListReply>> ClusterKeys::ListOnce(
    const ListRequest& request, const CallLimit& limit) {
  if (request.has_at()) co_return co_await snapshots_.List(request, limit);
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  const std::string& first = placement->servers.front().name;
  const auto list = [&](const ListRequest& made, const KnownNamespace& known) {
    return known.is_mirrored ? servers_.At(first, made, limit)
                             : ListPlaced(made, placement, limit);
  };
  co_return co_await namespaces_.MakeFor(first, request, limit, list);
}

Task<absl::StatusOr<ListReply>> ClusterKeys::ListPlaced(
    const ListRequest& request, const PlacementPtr& known,
    const CallLimit& limit) {
  PlacementPtr placement = known;
  for (int fruitless = 0;;) {
    const std::vector<std::string> servers = NamesIn(*placement);
    CO_ASSIGN_OR_RETURN(std::vector<ListReply> pages,
                        co_await servers_.AllOfEach(servers, request, limit));
    const auto versions =
        pages | std::views::transform(&ListReply::placement_version);
    const uint64_t oldest = std::ranges::min(versions);
    const uint64_t newest = std::ranges::max(versions);
    // Where servers go by several placements, each may leave a key to another.
    if (oldest == placement->version && newest == placement->version) {
      co_return MergePages(std::move(pages), request.page_size());
    }
    if (fruitless == kMostAttempts) {
      co_return absl::UnavailableError(absl::StrCat(
          "a server lists its keys by placement ", newest,
          "; no server gives a newer one than ", placement->version));
    }
    CO_ASSIGN_OR_RETURN(PlacementPtr found,
                        co_await servers_.NewerThan(placement, newest, limit));
    // A server that knows an older placement will learn of this one.
    const bool goes_on =
        found->version > placement->version || oldest < placement->version;
    fruitless = goes_on ? 0 : fruitless + 1;
    placement = std::move(found);
  }
}

}  // namespace tensorkv
