// Figures in a document that somebody wrote around them.

#ifndef TENSORKV_BENCH_HARNESS_FIGURES_FILE_H_
#define TENSORKV_BENCH_HARNESS_FIGURES_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorkv::bench {

// The lines that the figures stand between.
inline constexpr absl::string_view kFiguresBegin = "<!-- figures: begin -->";
inline constexpr absl::string_view kFiguresEnd = "<!-- figures: end -->";

// `document` with `figures` in place of what is between the two lines; only
// the figures, where it lacks them.
std::string WithFigures(absl::string_view document, absl::string_view figures);

// Writes `text` to a file. Errors: Unavailable.
absl::Status WriteTextFile(const std::string& path, absl::string_view text);

// Puts the figures into the document at `path`, which need not exist.
// Errors: Unavailable.
absl::Status UpdateFigures(const std::string& path, absl::string_view figures);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_FIGURES_FILE_H_
