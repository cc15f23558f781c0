// Small files that people write.

#ifndef TENSORKV_BASE_TEXT_FILE_H_
#define TENSORKV_BASE_TEXT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// More is no file of keys, tokens or rules.
inline constexpr size_t kMaxTextFileBytes = 1 << 20;

// Returns the content of the file. Blocks while the file system does.
// Errors: InvalidArgument, naming the file: it cannot be read, with the
// system's reason; it is longer than kMaxTextFileBytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);
// Reads the file in the same way; errors begin with `option`, which names it.
absl::StatusOr<std::string> ReadTextFile(absl::string_view option,
                                         const std::string& path);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_TEXT_FILE_H_
