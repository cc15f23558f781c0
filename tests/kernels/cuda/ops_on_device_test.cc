#include "tests/kernels/cuda/ops_on_device.h"

#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::testing {
namespace {

std::vector<float> Random(float low, float high, int seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(1000);
  for (float& value : values) value = distribution(random);
  return values;
}

TEST(OpsOnDeviceTest, AdamGivesTheBitsOfTheHost) {
  if (const char* reason = WhyNoDevice()) GTEST_SKIP() << reason;
  constexpr double kOwn[] = {0.9, 0.999, 1e-8};
  const auto adam = ops::Adam<float>::Create({.learning_rate = 0.01,
                                              .weight_decay = 0.1,
                                              .rescale_grad = 0.5,
                                              .clip_gradient = 1,
                                              .own = kOwn,
                                              .update_count = 3});
  AdamArrays device = {Random(-2, 2, 1), Random(-4, 4, 2), Random(-1, 1, 3),
                       Random(0, 1, 4)};
  AdamArrays host = device;

  ASSERT_EQ(RunOnDevice(adam, device), nullptr);

  for (size_t i = 0; i < host.w.size(); ++i) {
    float states[] = {host.m[i], host.v[i]};
    host.w[i] = adam(host.w[i], host.g[i], states);
    host.m[i] = states[0];
    host.v[i] = states[1];
  }
  EXPECT_EQ(device.w, host.w);
  EXPECT_EQ(device.m, host.m);
  EXPECT_EQ(device.v, host.v);
}

}  // namespace
}  // namespace tensorkv::testing
