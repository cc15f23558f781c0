// The parameters from which the functor of a rule is made, for one update of
// one key.

#ifndef TENSORKV_KERNELS_OPS_RULE_PARAMETERS_H_
#define TENSORKV_KERNELS_OPS_RULE_PARAMETERS_H_

#include <stdint.h>

namespace tensorkv {

struct RuleParameters {
  // That of the schedule at t, times the key's multiplier.
  double learning_rate = 0;
  // The rule's, times the key's multiplier.
  double weight_decay = 0;
  double rescale_grad = 1;
  // Negative: off.
  double clip_gradient = -1;
  // The rule's own hyperparameters, in the order of its row in rule_table.h.
  const double* own = nullptr;
  // t, the number of this update of the key, from 1.
  uint64_t update_count = 1;
  // Differs from key to key.
  uint64_t seed = 0;
  // How many elements the key's value has.
  uint64_t num_elements = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_OPS_RULE_PARAMETERS_H_
