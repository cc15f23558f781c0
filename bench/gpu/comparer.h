// From loads to comparisons.

#ifndef TENSORKV_BENCH_GPU_COMPARER_H_
#define TENSORKV_BENCH_GPU_COMPARER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/data_path/suites/row_runner.h"
#include "bench/gpu/comparison.h"

namespace tensorkv::bench::gpu {

// A load that bounds ours, and how many times as fast ours should be.
struct Rival {
  Entrant entrant;
  std::optional<double> goal;
};

// A time that somebody else has published.
struct PublishedTime {
  std::string name;
  double microseconds = 0;
  // How many times as fast ours should be.
  double goal = 0;
};

// Measures figures, and adds them to one table. Not thread-safe.
class Comparer {
 public:
  // Both outlive this object.
  Comparer(RowRunner* runner, ComparisonTable* table)
      : runner_(*runner), table_(*table) {}

  // Whether the figures of that name are asked for. Loads take memory and time
  // to make: ask first.
  bool Wants(const std::string& name) const { return runner_.Wants(name); }

  // Adds the speed of `ours` beside that of each rival, all measured in turns.
  void AddSpeeds(const std::string& name, int64_t bytes, Entrant ours,
                 std::vector<Rival> rivals);

  // Adds the median time of a call of `ours`, beside the published one if there
  // is one, and by itself the 99th percentile, as "NAME/p99".
  void AddTimes(const std::string& name, int64_t bytes, Entrant ours,
                const std::optional<PublishedTime>& published);

  // Notes what could not be measured.
  void LeaveOut(const std::string& name, const absl::Status& reason);

 private:
  // Nothing if ours failed, which is noted.
  std::optional<Row> Measure(const std::string& name, int64_t bytes,
                             Entrant ours, std::vector<Entrant> references);

  RowRunner& runner_;
  ComparisonTable& table_;
};

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_COMPARER_H_
