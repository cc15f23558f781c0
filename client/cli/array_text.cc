#include "client/cli/array_text.h"

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/element_format.h"

namespace tensorkv {
namespace {

// NumPy's default options.
constexpr int64_t kSummaryThreshold = 1000;
constexpr int64_t kEdgeItems = 3;
constexpr size_t kLineWidth = 75;

// Stands for the positions that a summary leaves out.
constexpr int64_t kEllipsis = -1;

// Lays one array out in brackets and lines.
class ArrayLayout {
 public:
  explicit ArrayLayout(const Tensor& tensor)
      : shape_(tensor.shape()),
        is_summary_(tensor.num_elements() > kSummaryThreshold) {
    std::vector<int64_t> shown;
    CollectShown(0, 0, shown);
    format_ = MakeElementFormat(tensor, shown);
  }

  std::string Text() const { return Block(0, 0); }

 private:
  int64_t extent(int axis) const { return shape_.dimensions()[axis]; }
  bool is_last(int axis) const { return axis == shape_.rank() - 1; }

  // The positions along `axis` to print, kEllipsis among them.
  std::vector<int64_t> Positions(int axis) const {
    std::vector<int64_t> positions;
    const bool has_gap = is_summary_ && extent(axis) > 2 * kEdgeItems;
    for (int64_t i = 0; i < extent(axis); ++i) {
      if (has_gap && i == kEdgeItems) {
        positions.push_back(kEllipsis);
        i = extent(axis) - kEdgeItems;
      }
      positions.push_back(i);
    }
    return positions;
  }

  // `row` counts the blocks of `axis`; so an element's row is its index.
  void CollectShown(int axis, int64_t row, std::vector<int64_t>& shown) const {
    if (axis == shape_.rank()) {
      shown.push_back(row);
      return;
    }
    for (const int64_t position : Positions(axis)) {
      if (position == kEllipsis) continue;
      CollectShown(axis + 1, row * extent(axis) + position, shown);
    }
  }

  // The bracketed block `row` of `axis`; lines after its first are indented.
  std::string Block(int axis, int64_t row) const {
    return absl::StrCat("[", is_last(axis) ? Line(axis, row) : Rows(axis, row),
                        "]");
  }

  std::string Rows(int axis, int64_t row) const {
    const std::string separator =
        std::string(shape_.rank() - axis - 1, '\n') + Indent(axis);
    std::string text;
    for (const int64_t position : Positions(axis)) {
      if (!text.empty()) text += separator;
      text += position == kEllipsis
                  ? "..."
                  : Block(axis + 1, row * extent(axis) + position);
    }
    return text;
  }

  // Elements side by side, broken into lines where they are too wide.
  std::string Line(int axis, int64_t row) const {
    const size_t width = kLineWidth - axis - 1;
    const std::string indent = Indent(axis);
    std::string text;
    size_t column = indent.size();
    for (const int64_t position : Positions(axis)) {
      const std::string word = position == kEllipsis
                                   ? "..."
                                   : format_(row * extent(axis) + position);
      if (text.empty()) {
        text = word;
        column += word.size();
      } else if (column + 1 + word.size() > width) {
        absl::StripTrailingAsciiWhitespace(&text);
        absl::StrAppend(&text, "\n", indent, word);
        column = indent.size() + word.size();
      } else {
        absl::StrAppend(&text, " ", word);
        column += 1 + word.size();
      }
    }
    return text;
  }

  static std::string Indent(int axis) { return std::string(axis + 1, ' '); }

  const Shape& shape_;
  const bool is_summary_;
  ElementFormat format_;
};

}  // namespace

std::string ArrayText(const Tensor& tensor) {
  if (tensor.shape().rank() == 0) return ScalarElementText(tensor);
  if (tensor.num_elements() == 0) return "[]";
  return ArrayLayout(tensor).Text();
}

}  // namespace tensorkv
