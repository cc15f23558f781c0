// How a learning rate changes with a key's updates.

#ifndef TENSORKV_KERNELS_SCHEDULE_H_
#define TENSORKV_KERNELS_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

// A checked schedule of learning rates. proto/tensorkv/v1/rule.proto says what
// each schedule computes. A value type; const access is thread-safe.
class Schedule {
 public:
  // Makes `constant`, without warm-up.
  Schedule() = default;

  // Returns the schedule that `spec` names, with defaults for the arguments
  // that it leaves out.
  //
  // Errors: InvalidArgument for an unknown name or argument (the message lists
  // the known ones), an argument that is NaN or out of range, a warm-up that
  // is not shorter than the whole, or steps that do not increase.
  static absl::StatusOr<Schedule> Create(const ScheduleSpec& spec);

  // Returns the learning rate of update `t` (from 1) of a key, where `base` is
  // the rule's learning rate.
  double RateAt(double base, uint64_t t) const;

  // Returns every argument, defaults included.
  const ScheduleSpec& spec() const { return spec_; }

  struct Row;

 private:
  friend struct ScheduleFormulas;

  // The arguments of all schedules; each uses some of them.
  struct Arguments {
    double warmup_updates = 0;
    double warmup_learning_rate = 0;
    double warmup_is_constant = 0;
    double updates_per_step = 0;
    double max_updates = 0;
    double factor = 0;
    double power = 0;
    double final_learning_rate = 0;
    double rising_share = 0;
    double initial_divisor = 0;
    double final_divisor = 0;
  };

  absl::Status CheckSteps() const;
  absl::Status CheckWarmUp() const;

  // Null: constant, without warm-up.
  const Row* row_ = nullptr;
  Arguments arguments_;
  std::vector<uint64_t> steps_;
  ScheduleSpec spec_;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_SCHEDULE_H_
