// Checks that ids name rows of a key.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_CHECK_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "contract/row_ids.h"
#include "service/store/keyspace/stored_key.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Checks that rows of the key can be updated by themselves. Errors:
// FailedPrecondition (its rule takes sums over the key).
absl::Status CheckRuleAllowsRows(const StoredKey& key);

// Checks that the key has rows of all these ids. Errors: InvalidArgument (a key
// of rank 0; ROW_OUT_OF_RANGE, with one of the ids that are).
absl::Status CheckRowIds(const StoredKey& key, const RowIds& ids);

// Returns the shape of so many rows of the key. REQUIRES: it has rows. Errors:
// InvalidArgument (size overflows).
absl::StatusOr<Shape> ShapeOfRows(const StoredKey& key, int64_t num_rows);

// Check the same of a value that a key had.
absl::Status CheckRowIds(absl::string_view key, const Tensor& value,
                         const RowIds& ids);
absl::StatusOr<Shape> ShapeOfRows(const Shape& shape, int64_t num_rows);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_ROW_CHECK_H_
