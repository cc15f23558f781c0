#include "client/cluster/read_layouts.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/calls/next_page.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

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

Task<absl::StatusOr<SplitLayoutsPtr>> ReadLayouts(ListRequest request,
                                                  Lister list) {
  auto layouts = std::make_shared<SplitLayouts>();
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

}  // namespace tensorkv
