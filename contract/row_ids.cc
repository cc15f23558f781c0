#include "contract/row_ids.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensor/dtype.h"

namespace tensorkv {

absl::StatusOr<RefPtr<const RowIds>> RowIds::Create(Tensor ids) {
  const bool is_index =
      ids.dtype() == DType::kI32 || ids.dtype() == DType::kI64;
  if (!is_index || ids.shape().rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows: expected i32 or i64 of rank 1, got ", ids.Description()));
  }
  if (ids.num_elements() > 0 && !ids.has_data()) {
    return absl::InvalidArgumentError("rows: expected data, got none");
  }
  return RefPtr<const RowIds>(new RowIds(std::move(ids)));
}

RowIds::RowIds(Tensor ids) : tensor_(std::move(ids)) {
  if (size() == 0) return;
  lowest_ = highest_ = (*this)[0];
  for (int64_t i = 1; i < size(); ++i) {
    const int64_t id = (*this)[i];
    lowest_ = std::min(lowest_, id);
    highest_ = std::max(highest_, id);
  }
}

}  // namespace tensorkv
