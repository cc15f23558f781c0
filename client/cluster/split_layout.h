// Says how a tensor is cut into slices.

#ifndef TENSORKV_CLIENT_CLUSTER_SPLIT_LAYOUT_H_
#define TENSORKV_CLIENT_CLUSTER_SPLIT_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "contract/placement.h"
#include "contract/slices.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {

// A key whose tensor is in slices, along its first dimension. A plain value.
struct SplitLayout {
  std::string key;
  // The dtype and the shape of the whole tensor, of rank 1 at least.
  DType dtype = DType::kF32;
  Shape shape;
  uint32_t num_slices = 1;

  int64_t num_rows() const { return shape.dimensions().front(); }
  // Returns the first row of a slice; num_rows() for num_slices.
  int64_t FirstRow(uint32_t slice) const {
    return FirstRowOfSlice(num_rows(), slice, num_slices);
  }
  // REQUIRES: 0 <= row < num_rows().
  uint32_t SliceOfRow(int64_t row) const;
  std::string NameOf(uint32_t slice) const {
    return SliceNameOf(key, slice, num_slices, shape.dimensions());
  }

  friend bool operator==(const SplitLayout&, const SplitLayout&) = default;
};

// By key.
using SplitLayouts = std::map<std::string, SplitLayout>;
using SplitLayoutsPtr = std::shared_ptr<const SplitLayouts>;

// Returns the layout of a key; null for a key that is not in slices.
// `layouts` may be null: no key is.
inline const SplitLayout* FindLayout(const SplitLayouts* layouts,
                                     const std::string& key) {
  if (layouts == nullptr) return nullptr;
  const auto found = layouts->find(key);
  return found == layouts->end() ? nullptr : &found->second;
}

// Returns how a new key is cut in a cluster of that placement; nothing if it
// stays whole.
std::optional<SplitLayout> PlanSplit(const ClusterPlacement& placement,
                                     const std::string& key, DType dtype,
                                     const Shape& shape);

// Returns that shape with another first dimension. REQUIRES: rank >= 1.
Shape WithRows(const Shape& shape, int64_t num_rows);

// Returns how many bytes one row of the tensor takes. REQUIRES: rank >= 1.
size_t RowBytes(DType dtype, const Shape& shape);

// Returns rows `begin` to `end` - 1 of a tensor, whose memory they share.
// REQUIRES: the tensor has rank >= 1 and these rows.
Tensor RowsOf(const Tensor& tensor, int64_t begin, int64_t end);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_SPLIT_LAYOUT_H_
