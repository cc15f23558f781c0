#include "client/cluster/split_layout.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tensorkv {
namespace {

// Below this, what a key costs besides its bytes would show.
constexpr uint64_t kMinSliceBytes = 256 << 10;

// The contract's bound on keys.
constexpr size_t kMaxNameBytes = 1024;

}  // namespace

uint32_t SplitLayout::SliceOfRow(int64_t row) const {
  // The first slices have a row more than the others.
  const int64_t fewest = num_rows() / num_slices;
  const int64_t num_longer = num_rows() % num_slices;
  const int64_t end_of_longer = num_longer * (fewest + 1);
  if (row < end_of_longer) return static_cast<uint32_t>(row / (fewest + 1));
  return static_cast<uint32_t>(num_longer + (row - end_of_longer) / fewest);
}

std::optional<SplitLayout> PlanSplit(const ClusterPlacement& placement,
                                     const std::string& key, DType dtype,
                                     const Shape& shape) {
  const uint64_t bytes = shape.num_elements() * SizeOf(dtype);
  if (placement.split_bytes == 0 || bytes <= placement.split_bytes ||
      shape.rank() == 0) {
    return std::nullopt;
  }
  const uint64_t num_rows = shape.dimensions().front();
  const uint64_t num_slices =
      std::min({uint64_t{placement.owners.size()}, num_rows,
                std::max<uint64_t>(bytes / kMinSliceBytes, 1)});
  SplitLayout layout = {key, dtype, shape, static_cast<uint32_t>(num_slices)};
  if (num_slices < 2) return std::nullopt;
  if (layout.NameOf(layout.num_slices - 1).size() > kMaxNameBytes) {
    return std::nullopt;
  }
  return layout;
}

Shape WithRows(const Shape& shape, int64_t num_rows) {
  std::vector<int64_t> dimensions(shape.dimensions().begin(),
                                  shape.dimensions().end());
  dimensions.front() = num_rows;
  return Shape::OfValid(dimensions);
}

size_t RowBytes(DType dtype, const Shape& shape) {
  return WithRows(shape, 1).num_elements() * SizeOf(dtype);
}

Tensor RowsOf(const Tensor& tensor, int64_t begin, int64_t end) {
  const Shape shape = WithRows(tensor.shape(), end - begin);
  Tensor rows = Tensor::Unchecked(tensor.dtype(), shape, nullptr);
  if (tensor.has_data()) {
    const size_t offset = tensor.data() - tensor.buffer()->data();
    rows.SetBuffer(tensor.buffer(),
                   offset + begin * RowBytes(tensor.dtype(), tensor.shape()));
  }
  return rows;
}

}  // namespace tensorkv
