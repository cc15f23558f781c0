// What a run found out, before it is written in any form.

#ifndef TENSORKV_BENCH_HARNESS_SECTION_H_
#define TENSORKV_BENCH_HARNESS_SECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/harness/interleaved.h"

namespace tensorkv::bench {

struct Reference {
  std::string name;
  Measurement measurement;
};

// Ours, and what was measured in turns with it.
struct Row {
  std::string name;   // "tcp/push/64MiB"
  int64_t bytes = 0;  // of the tensors of one call, in one direction
  int in_flight = 1;
  int connections = 1;  // that carry our bytes
  Measurement ours;
  std::vector<Reference> references;

  // The reference of that name, or null.
  const Measurement* Find(absl::string_view reference) const {
    for (const Reference& candidate : references) {
      if (candidate.name == reference) return &candidate.measurement;
    }
    return nullptr;
  }
};

// How many times as fast as `reference` `ours` is: by bytes where bytes are
// moved, else by keys. 0 where either is not known.
inline double SpeedRatio(const Measurement& ours,
                         const Measurement& reference) {
  const bool has_bytes = ours.gigabytes_per_second > 0;
  const double own =
      has_bytes ? ours.gigabytes_per_second : ours.keys_per_second;
  const double other =
      has_bytes ? reference.gigabytes_per_second : reference.keys_per_second;
  return other > 0 ? own / other : 0;
}

// A figure that is no speed.
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
};

// What the rows of a section are about.
enum class Unit {
  kGigabytesPerSecond,
  kMillionKeysPerSecond,
  kNanosecondsPerKey
};

// Rows that are shown as one table.
struct Section {
  std::string title;
  Unit unit = Unit::kGigabytesPerSecond;
  std::vector<Row> rows;
  std::vector<Figure> figures;
  // What could not be measured, each with the reason.
  std::vector<std::string> left_out;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_SECTION_H_
