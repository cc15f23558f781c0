#include "bench/harness/interleaved.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "bench/harness/statistics.h"

namespace tensorkv::bench {
namespace {

constexpr double kGigabyte = 1e9;
// Bounds the memory of the latencies.
constexpr int64_t kMaxCallsPerTrial = 200'000;

// One load and what its trials gave so far. Not thread-safe.
class Contestant {
 public:
  Contestant(Load* load, const Clocks& clocks) : load_(load), clocks_(clocks) {
    if (load == nullptr) status_ = absl::NotFoundError("no such load");
  }

  // Runs until memory, connections and windows are as they stay, and chooses
  // the number of calls per trial.
  void WarmUp(absl::Duration trial_time) {
    if (status_.ok()) status_ = FindNumCalls(trial_time);
  }

  void RunTrial() {
    if (status_.ok()) status_ = Measure();
  }

  absl::StatusOr<Measurement> Result() const {
    RETURN_IF_ERROR(status_);
    const LoadShape& shape = load_->shape();
    const double calls_per_second = Median(rates_);
    const double bytes = latencies_.size() * 1.0 * shape.bytes_per_call;
    Measurement result;
    result.gigabytes_per_second =
        calls_per_second * shape.bytes_per_call / kGigabyte;
    result.keys_per_second = calls_per_second * shape.keys_per_call;
    if (bytes > 0) {
      result.cpu_seconds_per_gigabyte =
          absl::ToDoubleSeconds(cpu_time_) / (bytes / kGigabyte);
    }
    const std::vector<double> times = Microseconds();
    result.p50_microseconds = Percentile(times, 0.50);
    result.p99_microseconds = Percentile(times, 0.99);
    return result;
  }

 private:
  absl::StatusOr<absl::Duration> Time(int64_t num_calls,
                                      std::vector<absl::Duration>* latencies) {
    latencies->reserve(latencies->size() + num_calls);
    const absl::Duration start = clocks_.steady_time();
    RETURN_IF_ERROR(load_->Run(num_calls, latencies));
    return clocks_.steady_time() - start;
  }

  absl::Status FindNumCalls(absl::Duration trial_time) {
    const int64_t round = load_->shape().in_flight;
    num_calls_ = std::max<int64_t>(round, load_->shape().least_calls_per_trial);
    while (true) {
      std::vector<absl::Duration> ignored;
      ASSIGN_OR_RETURN(const absl::Duration took, Time(num_calls_, &ignored));
      const double missing =
          absl::FDivDuration(trial_time, std::max(took, absl::Nanoseconds(1)));
      // Four times as many calls take about four times as long; from a smaller
      // sample that would be a guess.
      const double factor = std::clamp(missing, 1.0, 4.0);
      const int64_t rounds = std::ceil(num_calls_ * factor / round);
      const int64_t previous = num_calls_;
      num_calls_ = std::min(rounds * round, kMaxCallsPerTrial);
      if (missing <= 4.0 || num_calls_ == previous) return absl::OkStatus();
    }
  }

  absl::Status Measure() {
    const absl::Duration cpu_start = CpuTime();
    ASSIGN_OR_RETURN(const absl::Duration took, Time(num_calls_, &latencies_));
    cpu_time_ += CpuTime() - cpu_start;
    rates_.push_back(num_calls_ / std::max(absl::ToDoubleSeconds(took), 1e-9));
    return absl::OkStatus();
  }

  absl::Duration CpuTime() const {
    const pid_t server = load_->shape().server;
    absl::Duration time = clocks_.cpu_time(0);
    if (server != 0) time += clocks_.cpu_time(server);
    return time;
  }

  std::vector<double> Microseconds() const {
    std::vector<double> times;
    times.reserve(latencies_.size());
    for (const absl::Duration latency : latencies_) {
      times.push_back(absl::ToDoubleMicroseconds(latency));
    }
    return times;
  }

  Load* const load_;
  const Clocks& clocks_;
  absl::Status status_;
  int64_t num_calls_ = 1;
  std::vector<double> rates_;  // calls per second, of each trial
  std::vector<absl::Duration> latencies_;
  absl::Duration cpu_time_;
};

}  // namespace

std::vector<absl::StatusOr<Measurement>> MeasureInterleaved(
    absl::Span<Load* const> loads, const MeasureOptions& options,
    const Clocks& clocks) {
  std::vector<Contestant> contestants;
  for (Load* load : loads) contestants.emplace_back(load, clocks);
  for (Contestant& c : contestants) c.WarmUp(options.trial_time);
  for (int i = 0; i < options.repetitions; ++i) {
    for (Contestant& c : contestants) c.RunTrial();
  }
  std::vector<absl::StatusOr<Measurement>> results;
  for (const Contestant& c : contestants) results.push_back(c.Result());
  return results;
}

}  // namespace tensorkv::bench
