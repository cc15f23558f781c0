#include "service/store/memory_budgets.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
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
  const ServerBudgets server_{kHostBytes, 0, backend_};
};

TEST_F(HostBudgetsTest, TensorsAreOfTheHostsMemory) {
  const NamespaceMemory memory = Memory(server_, 300);
  EXPECT_FALSE(server_.has_gpu());
  EXPECT_EQ(server_.largest_bytes(), kHostBytes);
  EXPECT_THAT(server_.DeviceBudgets(), IsEmpty());
  EXPECT_THAT(memory.used_on_device(), IsEmpty());
  EXPECT_EQ(memory.host().values, memory.device().values);

  ASSERT_OK(memory.metadata()->Reserve(100));
  EXPECT_OK(memory.CheckHeadroom({.host = 80, .device = 120}));
  EXPECT_THAT(memory.CheckHeadroom({.host = 80, .device = 121}),
              StatusIs(kExhausted));
  memory.metadata()->Release(100);
}

TEST_F(HostBudgetsTest, DeltasGetWhatTheBudgetAndSnapshotsLeave) {
  const ServerBudgets server(kHostBytes, 0, backend_, /*max_retained_bytes=*/50,
                             /*max_delta_bytes=*/800);
  EXPECT_EQ(server.RoomForDeltas(), 800);
  ASSERT_OK(server.host()->Reserve(900));
  EXPECT_EQ(server.RoomForDeltas(), 150);
  ASSERT_OK(server.retained_on_host()->Reserve(120));
  EXPECT_EQ(server.RoomForDeltas(), 30);
  ASSERT_OK(server.host()->Reserve(100));

  EXPECT_EQ(server.RoomForDeltas(), 0);

  // They are in neither.
  ASSERT_OK(server.deltas()->Reserve(800));
  EXPECT_THAT(server.CheckRetained({}), StatusIs(kExhausted));
  server.retained_on_host()->Release(70);
  EXPECT_OK(server.CheckRetained({}));
}

TEST_F(HostBudgetsTest, HugeNeedsDoNotWrapAround) {
  const NamespaceMemory memory = Memory(server_, 300);

  EXPECT_THAT(memory.CheckHeadroom({.host = 2, .device = UINT64_MAX - 1}),
              StatusIs(kExhausted));
}

class GpuBudgetsTest : public MemoryBudgetsTest {
 protected:
  testing::FakeGpu gpu_;
  const std::unique_ptr<CudaBackend> backend_ =
      *CudaBackend::Create(gpu_.Open(), {.quota_bytes = 1 << 23});
  const ServerBudgets server_{kHostBytes, 1200, *backend_};
};

TEST_F(GpuBudgetsTest, EachMemoryHasABudgetOfItsOwn) {
  const NamespaceMemory memory = Memory(server_, 10'000);
  EXPECT_EQ(server_.largest_bytes(), 1200u);

  EXPECT_OK(memory.CheckHeadroom({.host = 1000, .device = 1200}));
  EXPECT_THAT(memory.CheckHeadroom({.host = 1001}),
              StatusIs(kExhausted, HasSubstr("server:")));
  EXPECT_THAT(memory.CheckHeadroom({.device = 1201}),
              StatusIs(kExhausted, HasSubstr("server, fake:0:")));
}

TEST_F(GpuBudgetsTest, LimitOfANamespaceIsOfEachMemory) {
  const NamespaceMemory memory = Memory(server_, 500);

  EXPECT_OK(memory.CheckHeadroom({.host = 500, .device = 500}));
  EXPECT_THAT(memory.CheckHeadroom({.device = 501}),
              StatusIs(kExhausted, HasSubstr("namespace, fake:0:")));
  EXPECT_THAT(memory.CheckHeadroom({.host = 501}),
              StatusIs(kExhausted, HasSubstr("namespace:")));
}

TEST_F(GpuBudgetsTest, UseIsThatOfBothMemories) {
  const NamespaceMemory memory = Memory(server_, 10'000);
  ASSERT_OK(memory.metadata()->Reserve(1));
  ASSERT_OK(memory.host().values->Reserve(10));
  ASSERT_OK(memory.device().values->Reserve(100));
  ASSERT_OK(memory.device().state->Reserve(200));

  const MemoryUse used = memory.used();

  EXPECT_EQ(used.metadata, 1u);
  EXPECT_EQ(used.values, 110u);
  EXPECT_EQ(used.state, 200u);
  const std::vector<DeviceMemoryUse> on_device = memory.used_on_device();
  ASSERT_EQ(on_device.size(), 1u);
  EXPECT_EQ(on_device[0].device, "fake:0");
  EXPECT_EQ(on_device[0].memory.values, 100u);
  EXPECT_EQ(on_device[0].memory.state, 200u);
  const std::vector<DeviceBudget> budgets = server_.DeviceBudgets();
  ASSERT_EQ(budgets.size(), 1u);
  EXPECT_EQ(budgets[0].device, "fake:0");
  EXPECT_EQ(budgets[0].budget_bytes, 1200u);
  EXPECT_EQ(budgets[0].used_bytes, 300u);
  EXPECT_EQ(server_.host()->used_bytes(), 11u);
}

}  // namespace
}  // namespace tensorkv
