// What a run says: sections as they are done, and at the end the goals.

#ifndef TENSORKV_BENCH_HARNESS_REPORT_H_
#define TENSORKV_BENCH_HARNESS_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// Goes to the standard output. Not thread-safe.
class Report {
 public:
  // Text of any form, and the machine that this runs on.
  void Print(const std::string& text);
  void PrintMachine();

  // Nothing where the section is empty.
  void Add(Section section);

  // A table of the goals; of those that were measured only, if `measured_only`.
  void PrintGoals(bool measured_only);

  // Write what was printed, and a record for each row, as RecordsJson has them.
  // Nothing for an empty name. Errors: Unavailable.
  absl::Status WriteText(const std::string& file) const;
  absl::Status WriteRecords(const std::string& file) const;

 private:
  std::vector<Section> sections_;
  std::string text_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_REPORT_H_
