// The status of a call's result, whatever else the result carries.

#ifndef TENSORKV_CLIENT_INTERNAL_RESULT_STATUS_H_
#define TENSORKV_CLIENT_INTERNAL_RESULT_STATUS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorkv {

inline const absl::Status& ResultStatus(const absl::Status& status) {
  return status;
}

template <typename T>
const absl::Status& ResultStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RESULT_STATUS_H_
