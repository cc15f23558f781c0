#include "kernels/ops/assign.h"

#include "gtest/gtest.h"

namespace tensorkv::ops {
namespace {

TEST(AssignTest, ReturnsTheContribution) {
  const auto assign = Assign<float>::Create(nullptr, 1);

  EXPECT_EQ(assign(1, 2), 2);
}

}  // namespace
}  // namespace tensorkv::ops
