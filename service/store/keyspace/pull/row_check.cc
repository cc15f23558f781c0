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

absl::Status CheckRowIds(const StoredKey& key, const RowIds& ids) {
  if (key.shape().rank() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key ", Quoted(key.name()), ": expected a tensor that has rows, got ",
        Description(key.dtype(), key.shape())));
  }
  const int64_t num_rows = key.num_rows();
  if (ids.lowest() >= 0 && ids.highest() < num_rows) return absl::OkStatus();
  const int64_t id = ids.lowest() < 0 ? ids.lowest() : ids.highest();
  return WithReason(absl::InvalidArgumentError(absl::StrCat(
                        "key ", Quoted(key.name()), ": expected ids of its ",
                        num_rows, " rows, from 0 on, got ", id)),
                    Reason::kRowOutOfRange,
                    {{"key", key.name()}, {"row", id}, {"limit", num_rows}});
}

absl::StatusOr<Shape> ShapeOfRows(const StoredKey& key, int64_t num_rows) {
  const Shape shape = key.shape();
  std::vector<int64_t> dimensions(shape.dimensions().begin(),
                                  shape.dimensions().end());
  dimensions[0] = num_rows;
  return Shape::Create(dimensions);
}

}  // namespace tensorkv
