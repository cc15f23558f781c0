// Numbers of bytes as people write them.

#ifndef TENSORKV_BASE_BYTE_SIZE_H_
#define TENSORKV_BASE_BYTE_SIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns the bytes that `text` says: a whole number with a unit right after
// it: none or B, KiB, MiB, GiB, TiB (1024) or kB, MB, GB, TB (1000).
// Errors: InvalidArgument for anything else, and for what exceeds 2^63 - 1.
absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_BYTE_SIZE_H_
