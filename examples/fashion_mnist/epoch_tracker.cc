#include "examples/fashion_mnist/epoch_tracker.h"

namespace tensorkv::fashion_mnist {

void EpochTracker::Add(const StepReport& report) {
  Totals& totals = totals_[report.epoch];
  totals.steps_expected = uint64_t{num_workers_} * report.num_steps;
  totals.loss += report.mean_loss;
  ++totals.steps_taken;
}

double EpochTracker::Progress(uint32_t epoch) const {
  const Totals totals = TotalsOf(epoch);
  if (totals.steps_expected == 0) return 0;
  return static_cast<double>(totals.steps_taken) /
         static_cast<double>(totals.steps_expected);
}

bool EpochTracker::IsComplete(uint32_t epoch) const {
  const Totals totals = TotalsOf(epoch);
  return totals.steps_taken > 0 && totals.steps_taken == totals.steps_expected;
}

double EpochTracker::MeanLoss(uint32_t epoch) const {
  const Totals totals = TotalsOf(epoch);
  if (totals.steps_taken == 0) return 0;
  return totals.loss / static_cast<double>(totals.steps_taken);
}

EpochTracker::Totals EpochTracker::TotalsOf(uint32_t epoch) const {
  const auto it = totals_.find(epoch);
  return it == totals_.end() ? Totals{} : it->second;
}

}  // namespace tensorkv::fashion_mnist
