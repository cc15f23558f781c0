// One row of a table at a time.

#ifndef TENSORKV_BENCH_HARNESS_ROW_RUNNER_H_
#define TENSORKV_BENCH_HARNESS_ROW_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/harness/clocks.h"
#include "bench/harness/load.h"
#include "bench/harness/plan.h"
#include "bench/harness/section.h"

namespace tensorkv::bench {

// A load by the name of its column, or why there is none.
struct Entrant {
  std::string name;
  absl::StatusOr<std::unique_ptr<Load>> load;
};

// A load that is made where its row is measured, by the name of its column.
struct Contender {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Load>>()> make_load;
};

// Measures rows and adds them to sections. Not thread-safe.
class RowRunner {
 public:
  // The plan's time begins now. `progress` gets a line per row, and outlives
  // the runner.
  RowRunner(const Plan& plan, std::ostream* progress, const Clocks& clocks = {})
      : plan_(plan),
        clocks_(clocks),
        start_(clocks.steady_time()),
        progress_(*progress) {}

  const Plan& plan() const { return plan_; }

  // Whether the plan has the row.
  bool Wants(const std::string& name) const {
    return name.find(plan_.only) != std::string::npos;
  }

  // Whether there is time left; if not, that is noted for `what`.
  bool HasTimeFor(const std::string& what, Section* section) const;

  // Whether to go on with the row.
  bool MayBegin(const std::string& name, Section* section) const {
    return Wants(name) && HasTimeFor(name, section);
  }

  // Notes why a row could not be measured.
  static void LeaveOut(const std::string& name, const absl::Status& reason,
                       Section* section);

  // Fills in `row` by measuring `ours` and the references in turns. Who fails
  // is noted in the section as left out; where that is ours, with the row.
  void Measure(Row row, Entrant ours, std::vector<Entrant> references,
               Section* section);

  // Measures ours beside one other, if the plan has the row.
  void MeasureBeside(const std::string& name, int64_t bytes,
                     const Contender& ours, const Contender& other,
                     Section* section);

 private:
  const Plan plan_;
  const Clocks clocks_;
  const absl::Duration start_;
  std::ostream& progress_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_ROW_RUNNER_H_
