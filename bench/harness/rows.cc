#include "bench/harness/rows.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

constexpr double kGigabyte = 1e9;
// Bounds the memory of the times.
constexpr int64_t kMaxCalls = 200'000;

double Percentile(std::vector<double>& samples, double fraction) {
  const auto rank = static_cast<size_t>(std::ceil(fraction * samples.size()));
  const auto at = samples.begin() + std::max<size_t>(rank, 1) - 1;
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

// A load, and what its trials gave so far.
class Contestant {
 public:
  explicit Contestant(const MakeLoad& make_load) : load_(make_load()) {
    status_ = load_.status();
  }

  const absl::Status& status() const { return status_; }

  // Runs until memory, connections and windows are as they stay.
  void WarmUp(absl::Duration trial_time) {
    if (status_.ok()) status_ = FindNumCalls(trial_time);
    microseconds_.clear();
  }

  void RunTrial() {
    if (status_.ok()) status_ = Measure();
  }

  double calls_per_second() const { return Median(rates_); }
  double gigabytes_per_second() const {
    return calls_per_second() * load_->bytes / kGigabyte;
  }
  double keys_per_second() const { return calls_per_second() * load_->keys; }

  std::map<std::string, double> Columns() {
    std::map<std::string, double> columns = {
        {"p50_us", Percentile(microseconds_, 0.50)},
        {"p99_us", Percentile(microseconds_, 0.99)}};
    if (load_->keys > 1) columns["Mkeys/s"] = keys_per_second() / 1e6;
    if (load_->bytes > 0) {
      const double bytes = microseconds_.size() * 1.0 * load_->bytes;
      columns["GB/s"] = gigabytes_per_second();
      columns["cpu_s/GB"] =
          absl::ToDoubleSeconds(cpu_time_) / (bytes / kGigabyte);
    }
    return columns;
  }

 private:
  absl::StatusOr<absl::Duration> Time(int64_t num_calls) {
    const absl::Duration start = SteadyTime();
    absl::Duration counted;
    absl::Duration before = start;
    for (int64_t i = 0; i < num_calls; ++i) {
      RETURN_IF_ERROR(load_->call());
      const absl::Duration now = SteadyTime();
      const absl::Duration took = load_->took ? load_->took() : now - before;
      microseconds_.push_back(absl::ToDoubleMicroseconds(took));
      counted += took;
      before = now;
    }
    if (!load_->wait) return counted;
    RETURN_IF_ERROR(load_->wait());
    return SteadyTime() - start;
  }

  absl::Status FindNumCalls(absl::Duration trial_time) {
    num_calls_ = load_->least_calls;
    while (true) {
      ASSIGN_OR_RETURN(const absl::Duration took, Time(num_calls_));
      const double missing =
          absl::FDivDuration(trial_time, std::max(took, absl::Nanoseconds(1)));
      // Four times as many calls take about four times as long; from a smaller
      // sample that would be a guess.
      const auto wanted = static_cast<int64_t>(
          std::ceil(num_calls_ * std::clamp(missing, 1.0, 4.0)));
      const int64_t previous =
          std::exchange(num_calls_, std::min(wanted, kMaxCalls));
      if (missing <= 4.0 || num_calls_ == previous) return absl::OkStatus();
    }
  }

  absl::Status Measure() {
    const absl::Duration cpu_start = CpuTime();
    ASSIGN_OR_RETURN(const absl::Duration took, Time(num_calls_));
    cpu_time_ += CpuTime() - cpu_start;
    rates_.push_back(num_calls_ / std::max(absl::ToDoubleSeconds(took), 1e-9));
    return absl::OkStatus();
  }

  absl::Duration CpuTime() const {
    return CpuTimeOf(0) + (load_->server == 0 ? absl::ZeroDuration()
                                              : CpuTimeOf(load_->server));
  }

  const absl::StatusOr<Load> load_;
  absl::Status status_;
  int64_t num_calls_ = 1;
  std::vector<double> rates_;         // calls per second, of each trial
  std::vector<double> microseconds_;  // of each call
  absl::Duration cpu_time_;
};

// Returns how many times as fast ours is: by bytes, where both move some.
double Ratio(const Contestant& ours, const Contestant& other) {
  if (ours.gigabytes_per_second() > 0 && other.gigabytes_per_second() > 0) {
    return ours.gigabytes_per_second() / other.gigabytes_per_second();
  }
  return ours.keys_per_second() / other.keys_per_second();
}

void CheckGoal(bool is_met, const std::string& text, RowResult* result) {
  ++result->num_goals;
  if (!is_met) result->missed.push_back(text);
}

RowResult MeasureFigure(const Row& row) {
  RowResult result;
  const absl::StatusOr<double> figure = row.figure();
  result.status = figure.status();
  if (!figure.ok()) return result;
  result.columns["figure"] = *figure;
  CheckGoal(*figure <= row.most, absl::StrFormat("> %g", row.most), &result);
  return result;
}

}  // namespace

RowResult MeasureRow(const Row& row, const MeasureOptions& options) {
  if (row.figure) return MeasureFigure(row);
  RowResult result;
  std::list<Contestant> contestants;
  Contestant& ours = contestants.emplace_back(row.make_load);
  for (const Reference& reference : row.references) {
    contestants.emplace_back(reference.make_load);
  }
  for (Contestant& each : contestants) each.WarmUp(options.trial_time);
  for (int i = 0; i < options.repetitions && ours.status().ok(); ++i) {
    for (Contestant& each : contestants) each.RunTrial();
  }
  result.status = ours.status();
  if (!ours.status().ok()) return result;
  result.columns = ours.Columns();
  auto other = contestants.begin();
  for (const Reference& reference : row.references) {
    if (++other; !other->status().ok()) {
      result.left_out.push_back(
          absl::StrCat(reference.name, ": ", other->status().message()));
      continue;
    }
    const double ratio = Ratio(ours, *other);
    result.ratios[reference.name] = ratio;
    if (reference.goal == 0) continue;
    CheckGoal(ratio >= reference.goal,
              absl::StrFormat("%s < %g", reference.name, reference.goal),
              &result);
  }
  if (row.most_time < absl::InfiniteDuration()) {
    const double most = absl::ToDoubleMicroseconds(row.most_time);
    CheckGoal(result.columns["p50_us"] <= most,
              absl::StrFormat("p50_us > %g", most), &result);
  }
  return result;
}

absl::Status InParallel(int count,
                        const std::function<absl::Status(int)>& call) {
  std::vector<absl::Status> statuses(count);
  std::vector<std::thread> threads;
  for (int i = 1; i < count; ++i) {
    threads.emplace_back([&, i] { statuses[i] = call(i); });
  }
  statuses[0] = call(0);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

double Median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  if (samples.size() % 2 == 1) return samples[middle];
  return (samples[middle - 1] + samples[middle]) / 2;
}

}  // namespace tensorkv::bench
