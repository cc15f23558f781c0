#include "kernels/update_check.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

// Every way to break the contract is in tests/contracts/backend: here, what
// backends need not care for.

TEST(UpdateCheckTest, EmptyTensorsNeedNoMemory) {
  const UpdateRule sgd = *UpdateRule::Create({"sgd", {{"momentum", 0.5}}});
  const std::vector<TensorView> contributions = {{DType::kF16, 0, nullptr}};
  const std::vector<MutableTensorView> states = {{DType::kF32, 0, nullptr}};

  EXPECT_OK(CheckBatch({{.rule = &sgd,
                         .stored = {DType::kBF16, 0, nullptr},
                         .contributions = contributions,
                         .states = states,
                         .value = {DType::kBF16, 0, nullptr}}}));
}

TEST(UpdateCheckTest, AssignNeedsNoStoredValue) {
  const UpdateRule assign;
  float elements[2] = {};
  const std::vector<TensorView> contributions = {{DType::kF32, 1, elements}};

  EXPECT_OK(CheckBatch({{.rule = &assign,
                         .contributions = contributions,
                         .value = {DType::kF32, 1, elements + 1}}}));
}

TEST(UpdateCheckTest, NegativeCountsAreInvalid) {
  const UpdateRule assign;
  float elements[2] = {};
  const std::vector<TensorView> contributions = {{DType::kF32, -1, elements}};

  EXPECT_THAT(CheckBatch({{.rule = &assign,
                           .contributions = contributions,
                           .value = {DType::kF32, -1, elements + 1}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "update 0: value: expected 0 or more elements, got -1"));
}

}  // namespace
}  // namespace tensorkv
