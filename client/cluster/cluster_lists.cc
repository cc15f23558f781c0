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
#include "client/cluster/cluster_connection.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {
namespace {

using KeyStatuses = google::protobuf::RepeatedPtrField<KeyStatus>;

void MoveAll(KeyStatuses& from, KeyStatuses& to) {
  to.Reserve(to.size() + from.size());
  for (KeyStatus& status : from) to.Add(std::move(status));
}

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

// Returns the keys of `layouts` that belong on the page that the request asks
// for, which ends with the last of them if no more fits.
std::vector<std::string> KeysOnPage(const SplitLayouts& layouts,
                                    const ListRequest& request,
                                    ListReply& page) {
  std::vector<std::string> keys;
  for (const auto& [key, layout] : layouts) {
    if (!absl::StartsWith(key, request.prefix())) continue;
    if (!request.page_token().empty() && key <= request.page_token()) continue;
    const std::string& end = page.next_page_token();
    if (!end.empty() && key > end) continue;
    // Their statuses take a call about every slice.
    if (request.page_size() > 0 && keys.size() == request.page_size()) {
      page.set_next_page_token(keys.back());
      // The statuses are in order.
      auto& statuses = *page.mutable_keys();
      const auto after =
          absl::c_find_if(statuses, [&](const KeyStatus& status) {
            return status.key() > page.next_page_token();
          });
      statuses.erase(after, statuses.end());
      break;
    }
    keys.push_back(key);
  }
  return keys;
}

}  // namespace

Task<absl::StatusOr<StatReply>> ClusterConnection::StatThoseWhole(
    const SplitLayouts* layouts, const StatRequest& request,
    const CallLimit& limit) {
  const auto stat = [&](const StatRequest& keys) {
    return SnapshotIn(keys) != nullptr ? snapshots_.Read(keys, limit)
                                       : MakeBy(layouts, keys, limit);
  };
  auto reply = co_await stat(request);
  if (ReasonOf(reply.status()) != Reason::kKeyNotFound) co_return reply;
  StatReply found;
  for (const std::string& key : request.keys()) {
    StatRequest one = request;
    one.clear_keys();
    one.add_keys(key);
    reply = co_await stat(one);
    if (ReasonOf(reply.status()) == Reason::kKeyNotFound) continue;
    CO_RETURN_IF_ERROR(reply.status());
    MoveAll(*reply->mutable_keys(), *found.mutable_keys());
  }
  co_return found;
}

Task<absl::StatusOr<ListReply>> ClusterConnection::Route(
    const ListRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  CO_ASSIGN_OR_RETURN(ListReply page, co_await ListStored(request, limit));
  // A caller who asks for slices gets them.
  if (placement->split_bytes == 0 ||
      absl::StartsWith(request.prefix(), kSliceMark)) {
    co_return page;
  }
  EndBeforeSlices(page);
  StatRequest split;
  split.set_namespace_(request.namespace_());
  split.set_namespace_uid(request.namespace_uid());
  SplitLayoutsPtr layouts;
  if (request.has_at()) {
    *split.mutable_at() = request.at();
    CO_ASSIGN_OR_RETURN(
        layouts,
        co_await snapshots_.Layouts(request.namespace_(), request.at(), limit));
  } else {
    CO_ASSIGN_OR_RETURN(layouts, co_await Refresh(request.namespace_(), limit));
  }
  for (std::string& key : KeysOnPage(*layouts, request, page)) {
    split.add_keys(std::move(key));
  }
  if (split.keys().empty()) co_return page;
  CO_ASSIGN_OR_RETURN(StatReply statuses,
                      co_await StatThoseWhole(layouts.get(), split, limit));
  auto& keys = *page.mutable_keys();
  MoveAll(*statuses.mutable_keys(), keys);
  absl::c_sort(keys, [](const KeyStatus& a, const KeyStatus& b) {
    return a.key() < b.key();
  });
  const auto page_size =
      static_cast<int>(std::min<uint32_t>(request.page_size(), keys.size()));
  if (page_size > 0 && page_size < keys.size()) {
    keys.erase(keys.begin() + page_size, keys.end());
    page.set_next_page_token(keys[page_size - 1].key());
  }
  co_return page;
}

Task<absl::StatusOr<ListReply>> ClusterConnection::ListStored(
    const ListRequest& request, const CallLimit& limit) {
  if (request.has_at()) co_return co_await snapshots_.List(request, limit);
  CO_ASSIGN_OR_RETURN(PlacementPtr placement,
                      co_await servers_.Placement(limit));
  const std::string first = placement->servers.front().name;
  for (int attempt = 0;; ++attempt) {
    CO_ASSIGN_OR_RETURN(const KnownNamespace known,
                        co_await KnowAt(first, request.namespace_(),
                                        request.namespace_uid(), limit));
    ListRequest made = request;
    NameUid(known, made);
    Task<absl::StatusOr<ListReply>> task =
        known.is_mirrored ? servers_.At(first, made, limit)
                          : ListPlaced(made, placement, limit);
    const absl::StatusOr<ListReply> page = co_await task;
    const bool finds_another =
        IsOfFormerNamespace(page.status()) && request.namespace_uid() == 0;
    if (!finds_another || attempt == kMostAttempts) co_return page;
    namespaces_.Forget(request.namespace_(), known.uid);
  }
}

Task<absl::StatusOr<ListReply>> ClusterConnection::ListPlaced(
    const ListRequest& request, const PlacementPtr& known,
    const CallLimit& limit) {
  PlacementPtr placement = known;
  for (int fruitless = 0;;) {
    const std::vector<std::string> servers = NamesIn(*placement);
    CO_ASSIGN_OR_RETURN(std::vector<ListReply> pages,
                        co_await AskEach(servers, request, limit));
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
