#include "service/store/keyspace/pull/row_check.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {

absl::Status CheckRuleAllowsRows(const StoredKey& key) {
  if (!key.rule->takes_sums()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("key ", Quoted(key.name()),
                   ": expected a whole tensor, got rows: its "
                   "rule, ",
                   key.rule->spec().name, ", takes norms of all elements"));
}

namespace {

absl::Status CheckRowIds(absl::string_view key, DType dtype, const Shape& shape,
                         const RowIds& ids) {
  if (shape.rank() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key ", Quoted(key), ": expected a tensor that has rows, got ",
        Description(dtype, shape)));
  }
  const int64_t num_rows = shape.dimensions()[0];
  if (ids.lowest() >= 0 && ids.highest() < num_rows) return absl::OkStatus();
  const int64_t id = ids.lowest() < 0 ? ids.lowest() : ids.highest();
  return WithReason(absl::InvalidArgumentError(absl::StrCat(
                        "key ", Quoted(key), ": expected ids of its ", num_rows,
                        " rows, from 0 on, got ", id)),
                    Reason::kRowOutOfRange,
                    {{"key", key}, {"row", id}, {"limit", num_rows}});
}

}  // namespace

absl::Status CheckRowIds(const StoredKey& key, const RowIds& ids) {
  return CheckRowIds(key.name(), key.dtype(), key.shape(), ids);
}

absl::Status CheckRowIds(absl::string_view key, const Tensor& value,
                         const RowIds& ids) {
  return CheckRowIds(key, value.dtype(), value.shape(), ids);
}

absl::StatusOr<Shape> ShapeOfRows(const StoredKey& key, int64_t num_rows) {
  return ShapeOfRows(key.shape(), num_rows);
}

absl::StatusOr<Shape> ShapeOfRows(const Shape& shape, int64_t num_rows) {
  std::vector<int64_t> dimensions(shape.dimensions().begin(),
                                  shape.dimensions().end());
  dimensions[0] = num_rows;
  return Shape::Create(dimensions);
}

}  // namespace tensorkv
