#include "client/cluster/split_keys.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/internal/calls/next_page.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Rather ask again than keep more.
constexpr size_t kMostKnownWhole = 100'000;

std::string NameOrDefault(const std::string& name_space) {
  return name_space.empty() ? "default" : name_space;
}

// Returns the layout that the status of a slice tells; nothing where it makes
// no sense.
std::optional<SplitLayout> LayoutOf(const KeyStatus& status) {
  const std::optional<SliceName> name = ParseSliceName(status.key());
  if (!name) return std::nullopt;
  const absl::StatusOr<Shape> shape = Shape::Create(name->dimensions);
  if (!shape.ok()) return std::nullopt;
  return SplitLayout{std::string(name->key), DTypeOf(status), *shape,
                     name->count};
}

}  // namespace

Task<absl::StatusOr<SplitLayoutsPtr>> SplitKeys::Of(
    const std::string& name_space, Lister list) {
  {
    MutexLock lock(&mutex_);
    const SplitLayoutsPtr& known =
        namespaces_[NameOrDefault(name_space)].layouts;
    if (known != nullptr) co_return known;
  }
  co_return co_await Refresh(name_space, list);
}

Task<absl::StatusOr<SplitLayoutsPtr>> SplitKeys::Read(
    const std::string& name_space, const SnapshotReference* at, Lister list) {
  auto layouts = std::make_shared<SplitLayouts>();
  ListRequest request;
  request.set_namespace_(name_space);
  if (at != nullptr) *request.mutable_at() = *at;
  request.set_prefix(absl::StrCat(kSliceMark, "0/"));
  do {
    const absl::StatusOr<ListReply> page = co_await list(request);
    if (ReasonOf(page.status()) == Reason::kNamespaceNotFound) {
      co_return nullptr;
    }
    CO_RETURN_IF_ERROR(page.status());
    for (const KeyStatus& status : page->keys()) {
      std::optional<SplitLayout> layout = LayoutOf(status);
      if (!layout) continue;
      std::string key = layout->key;
      layouts->try_emplace(std::move(key), *std::move(layout));
    }
    CO_RETURN_IF_ERROR(NextPage(page->next_page_token(), request));
  } while (!request.page_token().empty());
  co_return layouts;
}

Task<absl::StatusOr<SplitLayoutsPtr>> SplitKeys::Refresh(
    const std::string& name_space, Lister list) {
  CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                      co_await Read(name_space, /*at=*/nullptr, list));
  if (layouts == nullptr) {
    Forget(name_space);
    co_return std::make_shared<SplitLayouts>();
  }
  MutexLock lock(&mutex_);
  namespaces_[NameOrDefault(name_space)].layouts = layouts;
  co_return layouts;
}

Task<absl::StatusOr<SplitLayoutsPtr>> SplitKeys::At(
    const std::string& name_space, const SnapshotReference& at, Lister list) {
  {
    MutexLock lock(&mutex_);
    if (snapshot_uid_ == at.uid()) co_return snapshot_layouts_;
  }
  CO_ASSIGN_OR_RETURN(SplitLayoutsPtr layouts,
                      co_await Read(name_space, &at, list));
  if (layouts == nullptr) layouts = std::make_shared<SplitLayouts>();
  MutexLock lock(&mutex_);
  snapshot_uid_ = at.uid();
  snapshot_layouts_ = layouts;
  co_return layouts;
}

void SplitKeys::Forget(const std::string& name_space) {
  MutexLock lock(&mutex_);
  namespaces_.erase(NameOrDefault(name_space));
}

bool SplitKeys::IsKnownWhole(const std::string& name_space,
                             const std::string& key) const {
  MutexLock lock(&mutex_);
  const auto known = namespaces_.find(NameOrDefault(name_space));
  return known != namespaces_.end() && known->second.whole.contains(key);
}

void SplitKeys::SetKnownWhole(const std::string& name_space,
                              const std::string& key) {
  MutexLock lock(&mutex_);
  std::set<std::string>& whole = namespaces_[NameOrDefault(name_space)].whole;
  if (whole.size() >= kMostKnownWhole) whole.clear();
  whole.insert(key);
}

}  // namespace tensorkv
