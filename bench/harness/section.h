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

// What a section should show.
struct Goal {
  enum class Kind {
    kSpeed,                 // at least so many times that of the reference
    kMedianTime,            // at most so many times that of the reference
    kMillionKeysPerSecond,  // at least
    kFigure                 // at most
  };

  std::string name;  // of a row or a figure
  Kind kind = Kind::kSpeed;
  double bound = 0;
  std::string reference;
};

// What the rows of a section are about.
enum class Unit {
  kGigabytesPerSecond,
  kMillionKeysPerSecond,
  kNanosecondsPerKey,
  kMicroseconds  // in the median
};

// Rows that are shown as one table.
struct Section {
  std::string title;
  Unit unit = Unit::kGigabytesPerSecond;
  std::vector<Row> rows;
  std::vector<Figure> figures;
  // What could not be measured, each with the reason.
  std::vector<std::string> left_out;
  std::vector<Goal> goals;

  bool empty() const {
    return rows.empty() && figures.empty() && left_out.empty();
  }
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_SECTION_H_
