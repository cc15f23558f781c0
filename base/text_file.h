// Small files that people write.

#ifndef TENSORKV_BASE_TEXT_FILE_H_
#define TENSORKV_BASE_TEXT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// More is no file of keys, tokens or rules.
inline constexpr size_t kMaxTextFileBytes = 1 << 20;

// What the file holds. Errors: InvalidArgument, with the system's reason, if it
// cannot be read or is longer than kMaxTextFileBytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);
// Errors begin with the option that names the file.
absl::StatusOr<std::string> ReadTextFile(absl::string_view option,
                                         const std::string& path);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_TEXT_FILE_H_
