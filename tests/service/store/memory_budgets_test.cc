#include "service/store/memory_budgets.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr absl::StatusCode kExhausted = absl::StatusCode::kResourceExhausted;

// A server of 1000 bytes on the host.
class MemoryBudgetsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kHostBytes = 1000;

  static NamespaceMemory Memory(const ServerBudgets& server,
                                uint64_t limit_bytes) {
    return NamespaceMemory("namespace", limit_bytes, &server);
  }
};

class HostBudgetsTest : public MemoryBudgetsTest {
 protected:
  CpuBackend backend_{1};
  const DeviceSet devices_{{&backend_}};
  const ServerBudgets server_{kHostBytes, {}, devices_};
};

TEST_F(HostBudgetsTest, TensorsAreOfTheHostsMemory) {
  const NamespaceMemory memory = Memory(server_, 300);
  EXPECT_FALSE(server_.has_gpus());
  EXPECT_EQ(server_.largest_bytes(), kHostBytes);
  EXPECT_EQ(&memory.host(), &memory.on(0));

  ASSERT_OK(memory.metadata()->Reserve(100));
  EXPECT_OK(memory.CheckRoom({.host = 80, .devices = {120}}));
  EXPECT_THAT(memory.CheckRoom({.host = 80, .devices = {121}}),
              StatusIs(kExhausted));
  EXPECT_THAT(memory.Reserve(&MemoryAccounts::values, {201}).status(),
              StatusIs(kExhausted));
  memory.metadata()->Release(100);
}

TEST_F(HostBudgetsTest, HugeNeedsDoNotWrapAround) {
  const NamespaceMemory memory = Memory(server_, 300);

  EXPECT_THAT(memory.CheckRoom({.host = 2, .devices = {UINT64_MAX - 1}}),
              StatusIs(kExhausted));
}

class GpuBudgetsTest : public MemoryBudgetsTest {
 protected:
  static std::unique_ptr<CudaBackend> Open(testing::FakeGpu& gpu) {
    return *CudaBackend::Create(gpu.Open(), {.quota_bytes = 1 << 23});
  }

  testing::FakeGpu gpus_[2] = {testing::FakeGpu(),
                               testing::FakeGpu({.ordinal = 1})};
  const std::unique_ptr<CudaBackend> one_ = Open(gpus_[0]);
  const std::unique_ptr<CudaBackend> other_ = Open(gpus_[1]);
  const DeviceSet devices_{{one_.get(), other_.get()}};
  const ServerBudgets server_{kHostBytes, {600, 700}, devices_};
};

TEST_F(GpuBudgetsTest, EachMemoryHasABudgetOfItsOwn) {
  const NamespaceMemory memory = Memory(server_, 10'000);
  EXPECT_EQ(server_.largest_bytes(), 1300u);

  EXPECT_OK(memory.CheckRoom({.host = 1000, .devices = {600, 700}}));
  EXPECT_THAT(memory.CheckRoom({.host = 1001, .devices = {0, 0}}),
              StatusIs(kExhausted, HasSubstr("server:")));
  EXPECT_THAT(memory.CheckRoom({.host = 0, .devices = {601, 0}}),
              StatusIs(kExhausted, HasSubstr("server, fake:0:")));
  EXPECT_THAT(memory.CheckRoom({.host = 0, .devices = {0, 701}}),
              StatusIs(kExhausted, HasSubstr("server, fake:1:")));
}

TEST_F(GpuBudgetsTest, LimitOfANamespaceIsOfAllGpusTogether) {
  const NamespaceMemory memory = Memory(server_, 500);

  EXPECT_OK(memory.CheckRoom({.host = 500, .devices = {200, 300}}));
  EXPECT_THAT(memory.CheckRoom({.host = 0, .devices = {200, 301}}),
              StatusIs(kExhausted, HasSubstr("namespace, GPUs:")));
  ASSERT_OK_AND_ASSIGN(const DeviceReservations held,
                       memory.Reserve(&MemoryAccounts::values, {200, 0}));
  EXPECT_THAT(memory.Reserve(&MemoryAccounts::state, {0, 301}).status(),
              StatusIs(kExhausted, HasSubstr("namespace, GPUs:")));
  EXPECT_THAT(memory.Reserve(&MemoryAccounts::values, {501, 0}).status(),
              StatusIs(kExhausted, HasSubstr("namespace, GPUs:")));
}

TEST_F(GpuBudgetsTest, ReservesOfAllDevicesOrOfNone) {
  const NamespaceMemory memory = Memory(server_, 10'000);

  EXPECT_THAT(memory.Reserve(&MemoryAccounts::values, {100, 701}).status(),
              StatusIs(kExhausted));
  EXPECT_THAT(server_.FreeBytes(), ElementsAre(600, 700));

  {
    ASSERT_OK_AND_ASSIGN(
        DeviceReservations held,
        memory.Reserve(&MemoryAccounts::contributions, {100, 200}));
    const Reservation part = held.Split(1, 50);
    DeviceReservations all;
    all.Merge(std::move(held));
    EXPECT_THAT(server_.FreeBytes(), ElementsAre(500, 500));
    EXPECT_EQ(memory.used().contributions, 300u);
  }
  EXPECT_THAT(server_.FreeBytes(), ElementsAre(600, 700));
}

TEST_F(GpuBudgetsTest, UseIsThatOfAllMemories) {
  const NamespaceMemory memory = Memory(server_, 10'000);
  ASSERT_OK(memory.metadata()->Reserve(1));
  ASSERT_OK(memory.host().values->Reserve(10));
  ASSERT_OK(memory.on(0).values->Reserve(100));
  ASSERT_OK(memory.on(1).state->Reserve(200));

  const MemoryUse used = memory.used();

  EXPECT_EQ(used.metadata, 1u);
  EXPECT_EQ(used.values, 110u);
  EXPECT_EQ(used.state, 200u);
  const std::vector<DeviceMemoryUse> on_gpus = memory.used_on_gpus();
  ASSERT_EQ(on_gpus.size(), 2u);
  EXPECT_EQ(on_gpus[0].device, "fake:0");
  EXPECT_EQ(on_gpus[0].memory.values, 100u);
  EXPECT_EQ(on_gpus[1].memory.state, 200u);
  const std::vector<DeviceBudget> budgets = server_.DeviceBudgets();
  ASSERT_EQ(budgets.size(), 2u);
  EXPECT_EQ(budgets[1].device, "fake:1");
  EXPECT_EQ(budgets[1].budget_bytes, 700u);
  EXPECT_EQ(budgets[1].used_bytes, 200u);
  EXPECT_EQ(server_.host()->used_bytes(), 11u);
}

TEST_F(GpuBudgetsTest, KeysGoWhereMostOfTheBudgetIsFree) {
  Placement placement(server_);

  EXPECT_EQ(placement.Place(200), 1);  // 600, 500
  EXPECT_EQ(placement.Place(50), 0);   // 550, 500
  EXPECT_EQ(placement.Place(1000), 0);
  EXPECT_EQ(placement.Place(1), 1);
}

}  // namespace
}  // namespace tensorkv
