// Early return on errors. Statuses pass through unchanged; prefix them where
// the caller knows more than the callee.

#ifndef TENSORKV_BASE_STATUS_MACROS_H_
#define TENSORKV_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expr`, an absl::Status, is not OK.
#define RETURN_IF_ERROR(expr)                           \
  do {                                                  \
    if (absl::Status _status = (expr); !_status.ok()) { \
      return _status;                                   \
    }                                                   \
  } while (false)

// Assigns the value of `expr`, an absl::StatusOr, to `lhs` (which may be a
// declaration), or returns its status from the enclosing function.
#define ASSIGN_OR_RETURN(lhs, expr) \
  TENSORKV_ASSIGN_OR_RETURN_(TENSORKV_CONCAT_(_status_or_, __LINE__), lhs, expr)

#define TENSORKV_ASSIGN_OR_RETURN_(status_or, lhs, expr) \
  auto status_or = (expr);                               \
  if (!status_or.ok()) return status_or.status();        \
  lhs = *std::move(status_or)

#define TENSORKV_CONCAT_(a, b) TENSORKV_CONCAT_INNER_(a, b)
#define TENSORKV_CONCAT_INNER_(a, b) a##b

#endif  // TENSORKV_BASE_STATUS_MACROS_H_
