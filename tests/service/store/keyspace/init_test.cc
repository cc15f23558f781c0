// Inits of tensors that are not kept in host memory.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/gpu_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/rule_requests.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

class InitTest : public testing::GpuStoreTest {
 protected:
  absl::Status SetRule(const std::string& rule) {
    return testing::MakeNow(*store_, testing::SetRuleOf(rule, "*"));
  }
};

TEST_F(InitTest, KeyThatItsRuleDoesNotTakeCopiesNothing) {
  ASSERT_OK(SetRule("sgd"));
  const Tensor integers = *Tensor::Filled(DType::kI32, {10}, 1);

  ExpectRefusedFromTheHost([&] { return Init("w", integers); },
                           absl::StatusCode::kInvalidArgument);
}

TEST_F(InitTest, KeyThatExistsCopiesNothing) {
  ASSERT_OK(Init("w", Filled(10, 1)));

  ExpectRefusedFromTheHost([&] { return Init("w", Filled(10, 1)); },
                           absl::StatusCode::kAlreadyExists);
}

TEST_F(InitTest, StateOverTheBudgetCopiesNothing) {
  ASSERT_OK(SetRule("adam"));

  EXPECT_THAT(Init("w", Filled(kHalf, 1)),
              StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_EQ(ValueBytes(), 0u);
  EXPECT_EQ(gpu_.num_copies(), 0);
}

TEST_F(InitTest, TensorsAreOnTheDeviceOnce) {
  const uint64_t used_bytes = backend_->usage().used_bytes;
  store_ = nullptr;
  backend_ =
      *CudaBackend::Create(gpu_.Open(), {.quota_bytes = used_bytes + 640'000});
  store_ = std::make_unique<MemoryTensorStore>(
      MemoryTensorStoreOptions{.budget_bytes = kBudgetBytes,
                               .device_budget_bytes = kBudgetBytes},
      backend_.get(), &alarms_);

  ASSERT_OK(Init("w", Filled(kHalf, 7)));  // 560,000 bytes

  EXPECT_THAT(Init("x", Filled(40'000, 7)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("fake:0 memory")));
}

}  // namespace
}  // namespace tensorkv
