#include "kernels/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/hyperparameter.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxSteps = 1024;
constexpr double kPi = 3.14159265358979323846;

// Goes from `begin` to `end` along half a cosine, where `share` goes from 0 to
// 1.
double AlongCosine(double begin, double end, double share) {
  return end + (begin - end) * (1 + std::cos(kPi * share)) / 2;
}

}  // namespace

// The rate of update t after the warm-up.
struct ScheduleFormulas {
  static double Constant(const Schedule&, double base, double) { return base; }

  static double Factor(const Schedule& s, double base, double t) {
    const Schedule::Arguments& a = s.arguments_;
    const double steps = std::floor((t - 1) / a.updates_per_step);
    if (steps < 1) return base;
    return std::max(base * std::pow(a.factor, steps), a.final_learning_rate);
  }

  static double MultiFactor(const Schedule& s, double base, double t) {
    const auto next = std::lower_bound(
        s.steps_.begin(), s.steps_.end(), t,
        [](uint64_t step, double t) { return static_cast<double>(step) < t; });
    const auto passed = static_cast<double>(next - s.steps_.begin());
    return base * std::pow(s.arguments_.factor, passed);
  }

  // Returns what is done of the part after the warm-up, from 0 to 1.
  static double Share(const Schedule& s, double t) {
    const Schedule::Arguments& a = s.arguments_;
    return std::min((t - a.warmup_updates) / (a.max_updates - a.warmup_updates),
                    1.0);
  }

  static double Polynomial(const Schedule& s, double base, double t) {
    const Schedule::Arguments& a = s.arguments_;
    return a.final_learning_rate +
           (base - a.final_learning_rate) * std::pow(1 - Share(s, t), a.power);
  }

  static double Cosine(const Schedule& s, double base, double t) {
    return AlongCosine(base, s.arguments_.final_learning_rate, Share(s, t));
  }

  static double OneCycle(const Schedule& s, double base, double t) {
    const Schedule::Arguments& a = s.arguments_;
    const double initial = base / a.initial_divisor;
    const double share = Share(s, t);
    if (share < a.rising_share) {
      return AlongCosine(initial, base, share / a.rising_share);
    }
    return AlongCosine(base, initial / a.final_divisor,
                       (share - a.rising_share) / (1 - a.rising_share));
  }
};

struct Schedule::Row {
  struct Argument {
    Hyperparameter hyperparameter;
    double Arguments::*place;
  };

  // Checks and defaults of the arguments that every schedule has.
  static const Argument kWarmUp[3];

  absl::string_view name;
  double (*rate)(const Schedule& schedule, double base, double t);
  bool has_steps;
  std::vector<Argument> arguments;

  static const std::vector<Row>& All();
};

const Schedule::Row::Argument Schedule::Row::kWarmUp[3] = {
    {{"warmup_updates", 0, kCount}, &Arguments::warmup_updates},
    {{"warmup_learning_rate", 0, kFinite}, &Arguments::warmup_learning_rate},
    {{"warmup_is_constant", 0, kFlag}, &Arguments::warmup_is_constant}};

const std::vector<Schedule::Row>& Schedule::Row::All() {
  using Formulas = ScheduleFormulas;
  static constexpr Range kUpdates = {
      "a whole number from 1 to 2^53",
      [](double x) { return x >= 1 && kCount.contains(x); }};
  const Argument max_updates = {{"max_updates", 1000, kUpdates},
                                &Arguments::max_updates};
  const Argument factor = {{"factor", 0.1, kPositive}, &Arguments::factor};
  const Argument final_rate = {{"final_learning_rate", 0, kFinite},
                               &Arguments::final_learning_rate};
  static const auto* const rows = new std::vector<Row>{
      {"constant", Formulas::Constant, false, {}},
      {"factor",
       Formulas::Factor,
       false,
       {{{"updates_per_step", 1000, kUpdates}, &Arguments::updates_per_step},
        factor,
        final_rate}},
      {"multi_factor", Formulas::MultiFactor, true, {factor}},
      {"polynomial",
       Formulas::Polynomial,
       false,
       {max_updates, {{"power", 2, kPositive}, &Arguments::power}, final_rate}},
      {"cosine", Formulas::Cosine, false, {max_updates, final_rate}},
      {"one_cycle",
       Formulas::OneCycle,
       false,
       {max_updates,
        {{"rising_share", 0.3, kUnit}, &Arguments::rising_share},
        {{"initial_divisor", 25, kPositive}, &Arguments::initial_divisor},
        {{"final_divisor", 1e4, kPositive}, &Arguments::final_divisor}}},
  };
  return *rows;
}

absl::StatusOr<Schedule> Schedule::Create(const ScheduleSpec& spec) {
  Schedule schedule;
  const std::vector<Row>& rows = Row::All();
  const auto row = std::find_if(
      rows.begin(), rows.end(),
      [&](const Row& candidate) { return candidate.name == spec.name; });
  if (row == rows.end()) {
    const std::string known =
        absl::StrJoin(rows, ", ", [](std::string* out, const Row& candidate) {
          absl::StrAppend(out, candidate.name);
        });
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule: expected one of ", known, ", got ", QuotedName(spec.name)));
  }
  schedule.row_ = &*row;
  schedule.steps_ = spec.steps;
  schedule.spec_ = spec;
  std::vector<HyperparameterTarget> targets;
  for (const absl::Span<const Row::Argument> arguments :
       {absl::MakeConstSpan(row->arguments),
        absl::MakeConstSpan(Row::kWarmUp)}) {
    for (const Row::Argument& argument : arguments) {
      targets.push_back(
          {&argument.hyperparameter, &(schedule.arguments_.*argument.place)});
    }
  }
  RETURN_IF_ERROR(
      ReadHyperparameters(row->name, targets, schedule.spec_.arguments));
  RETURN_IF_ERROR(schedule.CheckSteps());
  RETURN_IF_ERROR(schedule.CheckWarmUp());
  return schedule;
}

absl::Status Schedule::CheckSteps() const {
  if (!row_->has_steps && !steps_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(row_->name, ": expected no steps, got some"));
  }
  if (steps_.size() > kMaxSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat(row_->name, ": expected at most ", kMaxSteps,
                     " steps, got ", steps_.size()));
  }
  if (std::adjacent_find(steps_.begin(), steps_.end(),
                         std::greater_equal<>()) != steps_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(row_->name, ": expected steps that increase"));
  }
  return absl::OkStatus();
}

absl::Status Schedule::CheckWarmUp() const {
  const double max_updates = arguments_.max_updates;
  if (max_updates == 0 || arguments_.warmup_updates < max_updates) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      row_->name, ": warmup_updates must be less than max_updates, ",
      max_updates, ", got ", arguments_.warmup_updates));
}

double Schedule::RateAt(double base, uint64_t t) const {
  if (row_ == nullptr) return base;
  const Arguments& a = arguments_;
  const auto count = static_cast<double>(t);
  if (count >= a.warmup_updates) return row_->rate(*this, base, count);
  if (a.warmup_is_constant != 0) return a.warmup_learning_rate;
  return a.warmup_learning_rate +
         (base - a.warmup_learning_rate) * count / a.warmup_updates;
}

}  // namespace tensorkv
