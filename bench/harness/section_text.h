// Sections for people.

#ifndef TENSORKV_BENCH_HARNESS_SECTION_TEXT_H_
#define TENSORKV_BENCH_HARNESS_SECTION_TEXT_H_

#include <string>
#include <vector>

#include "bench/harness/section.h"

namespace tensorkv::bench {

// A Markdown section: the title, a table with a column for each reference that
// any row has, its figures, and what was left out. A cell of a reference is
// its speed and, in brackets, how many times as fast ours is.
std::string SectionText(const Section& section);

// A Markdown table, readable as it is: columns are padded to one width, the
// first is aligned left, the others right. The header comes first; every row
// has as many cells.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_SECTION_TEXT_H_
