#include "contract/row_ids.h"

#include <algorithm>
#include <vector>

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

bool RowIds::has_repeats() const {
  Repeats repeats = repeats_.load(std::memory_order_relaxed);
  if (repeats == Repeats::kUnknown) {
    bool is_rising = true;
    for (int64_t i = 1; i < size() && is_rising; ++i) {
      is_rising = (*this)[i - 1] < (*this)[i];
    }
    repeats = Repeats::kNone;
    if (!is_rising) {
      std::vector<int64_t> ids(size());
      for (int64_t i = 0; i < size(); ++i) ids[i] = (*this)[i];
      std::sort(ids.begin(), ids.end());
      if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) {
        repeats = Repeats::kSome;
      }
    }
    repeats_.store(repeats, std::memory_order_relaxed);
  }
  return repeats == Repeats::kSome;
}

}  // namespace tensorkv
