#include "base/text_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tensorkv {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxTextFileBytes + 1, '\0');
  // A directory opens, and only fails to be read.
  if (!file || (!file.read(text.data(), text.size()) && !file.eof())) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": ",
                     errno == 0 ? "no text" : std::strerror(errno)));
  }
  text.resize(file.gcount());
  if (text.size() <= kMaxTextFileBytes) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": expected at most ", kMaxTextFileBytes, " bytes, got more"));
}

absl::StatusOr<std::string> ReadTextFile(absl::string_view option,
                                         const std::string& path) {
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", text.status().message()));
}

}  // namespace tensorkv
