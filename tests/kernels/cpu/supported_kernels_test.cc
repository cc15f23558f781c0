#include "kernels/cpu/supported_kernels.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(SupportedKernelsTest, PortableComesFirst) {
  EXPECT_EQ(SupportedKernels().front(), PortableKernels());
}

TEST(SupportedKernelsTest, EveryTableIsThere) {
  EXPECT_THAT(SupportedKernels(), ::testing::Each(::testing::NotNull()));
}

}  // namespace
}  // namespace tensorkv
