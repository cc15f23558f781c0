#include "kernels/ops/sgd.h"

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

TEST(SgdTest, StepsAgainstGradientAndDecay) {
  // learning_rate, momentum, weight_decay, rescale_grad, clip_gradient
  constexpr double kHyperparameters[] = {0.5, 0, 0.25, 2, 3};
  const auto sgd = Sgd<double>::Create(kHyperparameters, 1);

  EXPECT_EQ(sgd(8, 1), 8 - 0.5 * (2 + 0.25 * 8));
  // Clipped after rescaling, before decay.
  EXPECT_EQ(sgd(8, 100), 8 - 0.5 * (3 + 0.25 * 8));
}

}  // namespace
}  // namespace tensorkv::ops
