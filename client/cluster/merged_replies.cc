#include "client/cluster/merged_replies.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "client/cluster/added_replies.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

int KindOf(const absl::Status& status) {
  switch (ReasonOf(status)) {
    case Reason::kServerRestarted:
      return 1;
    case Reason::kNotMember:
    case Reason::kLeaseLost:
      return 2;
    case Reason::kRoundFailed:
    case Reason::kStripeFailed:
      return 3;
    // Other slices of the key may be open. What their servers say comes first,
    // so that nobody takes the contribution for useless.
    case Reason::kStepClosed:
      return 7;
    case Reason::kOutcomeUnknown:
    case Reason::kWorkerLost:
      return 6;
    case Reason::kWorkerLeft:
      return 4;
    default:
      return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)
                 ? 6
                 : 5;
  }
}

const std::string& NameIn(const KeyStatus& key) { return key.key(); }
const std::string& NameIn(const NamespaceStatus& status) {
  return status.name();
}

const std::string& NameIn(const CheckpointStatus& status) {
  return status.name();
}

auto& ItemsIn(ListReply& page) { return *page.mutable_keys(); }
auto& ItemsIn(ListNamespacesReply& page) { return *page.mutable_namespaces(); }
auto& ItemsIn(ListCheckpointsReply& page) {
  return *page.mutable_checkpoints();
}

// Returns where the first of the pages ends that another follows; empty if none
// does. A page may have nothing, and be followed.
template <typename Reply>
std::string EndOf(const std::vector<Reply>& pages) {
  std::string end;
  for (const Reply& page : pages) {
    const std::string& token = page.next_page_token();
    if (token.empty()) continue;
    if (end.empty() || token < end) end = token;
  }
  return end;
}

// Returns the items of all pages up to `end`, which is EndOf them.
template <typename Reply>
auto Merge(std::vector<Reply>& pages, const std::string& end) {
  using Item = std::decay_t<decltype(*ItemsIn(pages.front()).begin())>;
  std::vector<Item> merged;
  for (Reply& page : pages) {
    for (Item& item : ItemsIn(page)) {
      if (end.empty() || NameIn(item) <= end) merged.push_back(std::move(item));
    }
  }
  absl::c_stable_sort(merged, [](const Item& a, const Item& b) {
    return NameIn(a) < NameIn(b);
  });
  return merged;
}

// Ends the page after its first `page_size`, and says where the next begins:
// at `end`, if it has no more.
template <typename Item>
std::string EndPage(uint32_t page_size, std::string end,
                    std::vector<Item>& items) {
  if (page_size == 0 || items.size() <= page_size) return end;
  items.erase(items.begin() + page_size, items.end());
  return NameIn(items.back());
}

}  // namespace

absl::Status MostActionableError(absl::Span<const absl::Status> statuses) {
  const absl::Status* worst = nullptr;
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    if (worst == nullptr || KindOf(status) < KindOf(*worst)) worst = &status;
  }
  return worst == nullptr ? absl::OkStatus() : *worst;
}

Step NextStepOf(Mode mode, Step a, Step b) {
  const bool takes_lower = mode != Mode::kAsync && a > 1 && b > 1;
  return takes_lower ? std::min(a, b) : std::max(a, b);
}

ListReply MergePages(std::vector<ListReply> pages, uint32_t page_size) {
  std::string end = EndOf(pages);
  std::vector<KeyStatus> keys = Merge(pages, end);
  const auto repeated = std::ranges::unique(
      keys, {}, [](const KeyStatus& key) -> auto& { return key.key(); });
  keys.erase(repeated.begin(), repeated.end());
  ListReply reply;
  reply.set_next_page_token(EndPage(page_size, std::move(end), keys));
  reply.mutable_keys()->Add(std::make_move_iterator(keys.begin()),
                            std::make_move_iterator(keys.end()));
  return reply;
}

ListNamespacesReply MergePages(std::vector<ListNamespacesReply> pages,
                               uint32_t page_size) {
  std::string end = EndOf(pages);
  std::vector<NamespaceStatus> namespaces;
  for (NamespaceStatus& status : Merge(pages, end)) {
    if (!namespaces.empty() && namespaces.back().name() == status.name()) {
      Add(status, namespaces.back());
    } else {
      namespaces.push_back(std::move(status));
    }
  }
  ListNamespacesReply reply;
  reply.set_next_page_token(EndPage(page_size, std::move(end), namespaces));
  reply.mutable_namespaces()->Add(std::make_move_iterator(namespaces.begin()),
                                  std::make_move_iterator(namespaces.end()));
  return reply;
}

ListCheckpointsReply CommonCheckpoints(std::vector<ListCheckpointsReply> pages,
                                       uint32_t page_size) {
  std::string end = EndOf(pages);
  const size_t num_servers = pages.size();
  std::vector<CheckpointStatus> common;
  size_t num_found = 0;
  for (CheckpointStatus& status : Merge(pages, end)) {
    if (!common.empty() && common.back().name() == status.name()) {
      Add(status, common.back());
      ++num_found;
      continue;
    }
    // Some servers lack the one before.
    if (!common.empty() && num_found < num_servers) common.pop_back();
    common.push_back(std::move(status));
    num_found = 1;
  }
  if (!common.empty() && num_found < num_servers) common.pop_back();
  ListCheckpointsReply reply;
  reply.set_next_page_token(EndPage(page_size, std::move(end), common));
  reply.mutable_checkpoints()->Add(std::make_move_iterator(common.begin()),
                                   std::make_move_iterator(common.end()));
  return reply;
}

}  // namespace tensorkv
