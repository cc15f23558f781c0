// How far each epoch of a training has come.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_EPOCH_TRACKER_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_EPOCH_TRACKER_H_

#include <cstdint>
#include <map>

#include "examples/fashion_mnist/step_report.h"

namespace tensorkv::fashion_mnist {

// Adds up the step reports of all workers, by epoch. Workers may be in
// different epochs. Not thread-safe.
class EpochTracker {
 public:
  explicit EpochTracker(uint32_t num_workers) : num_workers_(num_workers) {}

  void Add(const StepReport& report);

  // The share of the epoch's steps that all workers together have taken, 0 to
  // 1.
  double Progress(uint32_t epoch) const;

  // All workers have taken the last step of `epoch`.
  bool IsComplete(uint32_t epoch) const;

  // Over the steps taken so far; 0 before the first.
  double MeanLoss(uint32_t epoch) const;

 private:
  struct Totals {
    uint64_t steps_taken = 0;
    uint64_t steps_expected = 0;
    double loss = 0;
  };

  Totals TotalsOf(uint32_t epoch) const;

  const uint32_t num_workers_;
  std::map<uint32_t, Totals> totals_;
};

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_EPOCH_TRACKER_H_
