// Sections for people.

#ifndef TENSORKV_BENCH_HARNESS_SECTION_TEXT_H_
#define TENSORKV_BENCH_HARNESS_SECTION_TEXT_H_

#include <string>

#include "bench/harness/section.h"

namespace tensorkv::bench {

// A Markdown section: the title, a table with a column for each reference that
// any row has, its figures, and what was left out. A cell of a reference is
// its speed and, in brackets, how many times as fast ours is.
std::string SectionText(const Section& section);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_SECTION_TEXT_H_
