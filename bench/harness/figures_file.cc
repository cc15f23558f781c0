#include "bench/harness/figures_file.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace tensorkv::bench {

std::string WithFigures(absl::string_view document, absl::string_view figures) {
  const size_t begin = document.find(kFiguresBegin);
  const size_t end = document.find(kFiguresEnd);
  if (begin == absl::string_view::npos || end == absl::string_view::npos ||
      end < begin) {
    return std::string(figures);
  }
  return absl::StrCat(document.substr(0, begin), kFiguresBegin, "\n\n", figures,
                      "\n", document.substr(end));
}

absl::Status WriteTextFile(const std::string& path, absl::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

absl::Status UpdateFigures(const std::string& path, absl::string_view figures) {
  std::ifstream file(path, std::ios::binary);
  const std::string document((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
  return WriteTextFile(path, WithFigures(document, figures));
}

}  // namespace tensorkv::bench
