// Byte budgets: past them a call fails and nothing has changed; what is freed
// can be used again.

#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kBudgetBytes = 1 << 20;

NamespaceConfig Budgeted() { return {.budget_bytes = kBudgetBytes}; }

// Of tensors alone.
uint64_t TensorBytes(const Caller& caller) {
  const v1::MemoryUse memory = caller.Describe()->memory();
  return memory.values() + memory.state() + memory.contributions();
}

// All that the budget bounds, of all memories together.
uint64_t UsedBytes(const Caller& caller) {
  return TensorBytes(caller) + caller.Describe()->memory().metadata();
}

// Whether no more of the host, or of the GPUs together, is in use.
bool IsWithin(uint64_t budget_bytes, const Caller& caller) {
  const NamespaceStatus status = *caller.Describe();
  uint64_t on_gpus = 0;
  for (const v1::DeviceMemoryUse& on : status.device_memory()) {
    const v1::MemoryUse& memory = on.memory();
    on_gpus += memory.values() + memory.state() + memory.contributions();
  }
  const v1::MemoryUse& memory = status.memory();
  const uint64_t all = memory.values() + memory.state() +
                       memory.contributions() + memory.metadata();
  return on_gpus <= budget_bytes && all <= on_gpus + budget_bytes;
}

// More than the answers take that a store keeps of a few calls with a call_id,
// as striped ones have it.
constexpr uint64_t kAnswersBytes = 4096;

// Whether what was in use beyond `used_before` is free again.
bool HasReturned(const Caller& caller, uint64_t used_before) {
  return Eventually([&] {
    return TensorBytes(caller) == 0 &&
           UsedBytes(caller) < used_before + kAnswersBytes;
  });
}

// Makes the call, again for as long as what earlier ones have used is not free:
// replies count until the connection has let go of them, rounds until their
// update has run.
template <typename Call>
auto WhenThereIsRoom(const Call& call) {
  auto reply = call();
  (void)Eventually([&] {
    if (absl::IsResourceExhausted(reply.status())) reply = call();
    return !absl::IsResourceExhausted(reply.status());
  });
  return reply;
}

// An f32 tensor of that many bytes.
Tensor OfBytes(int64_t size_bytes, double value = 0) {
  return Full({size_bytes / 4}, value);
}

TEST_P(BudgetContractTest, ValueAboveTheBudgetIsRefused) {
  const Caller caller = NewNamespace("small", Budgeted());
  const uint64_t used_before = UsedBytes(caller);

  EXPECT_THAT(caller.Init("w", OfBytes(2 * kBudgetBytes)),
              StatusIs(StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("\"small\""), HasSubstr("1048576"))));

  EXPECT_THAT(caller.Pull("w"), StatusIs(StatusCode::kNotFound));
  EXPECT_EQ(UsedBytes(caller), used_before);
}

TEST_P(BudgetContractTest, ValuesCountTogether) {
  const Caller caller = NewNamespace("small", Budgeted());
  ASSERT_OK(caller.Init("a", OfBytes(kBudgetBytes / 2)));

  EXPECT_THAT(caller.Init("b", OfBytes(kBudgetBytes * 3 / 4)),
              StatusIs(StatusCode::kResourceExhausted));

  EXPECT_TRUE(
      Eventually([&] { return TensorBytes(caller) == kBudgetBytes / 2; }));
  EXPECT_OK(caller.Init("b", OfBytes(kBudgetBytes / 4)));
  EXPECT_TRUE(Eventually([&] { return IsWithin(kBudgetBytes, caller); }));
}

TEST_P(BudgetContractTest, ConvertedValuesCountUntilTheReplyIsGone) {
  const Caller caller = NewNamespace("small", Budgeted());
  ASSERT_OK(caller.Init("w", OfBytes(kBudgetBytes / 2)));

  const auto half = [&] { return caller.PullAs(DType::kF16, {{"w"}}); };
  for (int i = 0; i < 4; ++i) EXPECT_OK(WhenThereIsRoom(half));

  EXPECT_TRUE(
      Eventually([&] { return TensorBytes(caller) == kBudgetBytes / 2; }));
}

TEST_P(BudgetContractTest, ValuesAreConvertedOnlyWhereThereIsRoom) {
  const Caller caller = NewNamespace("small", Budgeted());
  ASSERT_OK(caller.Init("w", OfBytes(kBudgetBytes * 3 / 4)));

  EXPECT_THAT(caller.PullAs(DType::kF16, {{"w"}}),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_OK(caller.PullAs(DType::kF32, {{"w"}}));
}

TEST_P(BudgetContractTest, CallThatFitsOnlyInPartIsRefusedWhole) {
  const Caller caller = NewNamespace("small", Budgeted());
  const uint64_t used_before = UsedBytes(caller);

  EXPECT_THAT(caller.InitMany({{"a", OfBytes(kBudgetBytes / 2)},
                               {"b", OfBytes(kBudgetBytes * 3 / 4)}}),
              StatusIs(StatusCode::kResourceExhausted));

  EXPECT_THAT(caller.Pull("a"), StatusIs(StatusCode::kNotFound));
  EXPECT_EQ(UsedBytes(caller), used_before);
}

TEST_P(BudgetContractTest, OtherNamespacesAreNotAffected) {
  const Caller caller = NewNamespace("small", Budgeted());
  ASSERT_OK(caller.Init("w", OfBytes(kBudgetBytes * 3 / 4)));

  EXPECT_OK(store_.Init("w", OfBytes(kBudgetBytes * 3 / 4)));
}

TEST_P(BudgetContractTest, MemoryReturnsAfterDelete) {
  const Caller caller = NewNamespace("small", Budgeted());
  ASSERT_OK(caller.SetRule("sgd(momentum=0.9)"));
  const uint64_t used_before = UsedBytes(caller);
  ASSERT_OK(caller.Init("w", OfBytes(kBudgetBytes / 8)));
  ASSERT_OK(caller.Push("w", OfBytes(kBudgetBytes / 8, 1)));
  ASSERT_OK(caller.Pull("w"));
  EXPECT_GT(UsedBytes(caller), kBudgetBytes / 8);

  ASSERT_OK(caller.Delete({"w"}));

  EXPECT_TRUE(HasReturned(caller, used_before));
  EXPECT_OK(caller.Init("w", OfBytes(kBudgetBytes / 8)));
}

TEST_P(BudgetContractTest, KeysWithoutElementsCountToo) {
  const Caller caller = NewNamespace("small", {.budget_bytes = 1 << 16});
  const std::string name(1000, 'k');
  absl::Status status;
  int num_keys = 0;

  while (status.ok() && num_keys < 100) {
    status =
        caller.Init(name + std::to_string(num_keys++), OfBytes(0)).status();
  }

  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_LE(UsedBytes(caller), 1 << 16);
}

TEST_P(BudgetContractTest, ManyUpdatesUseNoMoreThanOne) {
  const Caller caller = NewNamespace("small", Budgeted());
  ASSERT_OK(caller.SetRule("sgd(momentum=0.9)"));
  ASSERT_OK(caller.Init("w", OfBytes(kBudgetBytes / 8)));

  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(WhenThereIsRoom(
        [&] { return caller.PushPull("w", OfBytes(kBudgetBytes / 8, 1)); }));
  }

  EXPECT_TRUE(
      Eventually([&] { return TensorBytes(caller) == kBudgetBytes / 4; }));
}

TEST_P(BudgetContractTest, ManyReplacementsUseNoMoreThanOne) {
  const Caller caller = NewNamespace("small", Budgeted());
  ASSERT_OK(caller.Init("w", OfBytes(kBudgetBytes / 8)));

  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(WhenThereIsRoom(
        [&] { return caller.PushPull("w", OfBytes(kBudgetBytes / 8, i)); }));
  }

  EXPECT_TRUE(
      Eventually([&] { return TensorBytes(caller) == kBudgetBytes / 8; }));
}

TEST_P(BudgetContractTest, StateAboveTheBudgetIsRefused) {
  const Caller caller = NewNamespace("small", Budgeted());
  ASSERT_OK(caller.Init("w", OfBytes(kBudgetBytes / 2, 3)));

  // adam needs twice the value for its state.
  const absl::Status rule = caller.SetRule("adam");
  const auto push = caller.Push("w", OfBytes(kBudgetBytes / 2, 1));

  EXPECT_THAT(push, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(caller.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(3)))));
}

TEST_P(BudgetContractTest, HeldContributionsCount) {
  const Caller sync = NewNamespace("sync", {.mode = Mode::kSync,
                                            .num_workers = 2,
                                            .budget_bytes = kBudgetBytes,
                                            .max_open_rounds = 64});
  ASSERT_OK(sync.Init("w", OfBytes(kBudgetBytes / 8)));
  absl::Status status;
  Step held = 0;

  while (status.ok() && held < 64) {
    status =
        sync.As(0).Push("w", OfBytes(kBudgetBytes / 8, 1), ++held).status();
  }

  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_LE(held, 8);
  EXPECT_TRUE(Eventually([&] { return IsWithin(kBudgetBytes, sync); }));
  EXPECT_EQ(sync.Describe()->rounds_open(), held - 1);
}

TEST_P(BudgetContractTest, ContributionsReturnWhenTheirKeyIsDeleted) {
  const Caller sync = NewNamespace(
      "sync",
      {.mode = Mode::kSync, .num_workers = 2, .budget_bytes = kBudgetBytes});
  const uint64_t used_before = UsedBytes(sync);
  ASSERT_OK(sync.Init("w", OfBytes(kBudgetBytes / 8)));
  ASSERT_OK(sync.As(0).Push("w", OfBytes(kBudgetBytes / 8, 1), 1));
  EXPECT_GT(sync.Describe()->memory().contributions(), 0);

  ASSERT_OK(sync.Delete({"w"}));

  EXPECT_TRUE(HasReturned(sync, used_before));
}

TEST_P(BudgetContractTest, ContributionsReturnWhenTheirRoundCloses) {
  const Caller sync = NewNamespace(
      "sync",
      {.mode = Mode::kSync, .num_workers = 2, .budget_bytes = kBudgetBytes});
  ASSERT_OK(sync.Init("w", OfBytes(kBudgetBytes / 8)));

  for (Step step = 1; step <= 20; ++step) {
    for (const uint32_t rank : {0, 1}) {
      ASSERT_OK(WhenThereIsRoom([&] {
        return sync.As(rank).Push("w", OfBytes(kBudgetBytes / 8, 1), step);
      }));
    }
  }

  EXPECT_TRUE(
      Eventually([&] { return TensorBytes(sync) == kBudgetBytes / 8; }));
}

TEST_P(BudgetContractTest, ServerShowsWhatIsUsedOfEachMemory) {
  ASSERT_OK(store_.Init("w", OfBytes(kBudgetBytes)));

  ServerStatus server;
  EXPECT_TRUE(Eventually([&] {
    server = *connection().Call(DescribeServerRequest());
    uint64_t used_bytes = server.used_bytes();
    for (const v1::DeviceBudget& gpu : server.device_budgets()) {
      used_bytes += gpu.used_bytes();
    }
    return used_bytes == UsedBytes(store_);
  }));

  if (device() == "cpu") {
    EXPECT_THAT(server.device_budgets(), IsEmpty());
    EXPECT_GT(server.used_bytes(), kBudgetBytes);
  } else {
    ASSERT_EQ(server.device_budgets_size(), server.devices_size());
    EXPECT_EQ(server.device_budgets(0).device(), device());
    EXPECT_EQ(server.device_budgets(0).used_bytes(), kBudgetBytes);
    const NamespaceStatus status = *store_.Describe();
    ASSERT_EQ(status.device_memory_size(), server.devices_size());
    EXPECT_EQ(status.device_memory(0).device(), device());
    EXPECT_EQ(status.device_memory(0).memory().values(), kBudgetBytes);
    EXPECT_GT(server.device_budgets(0).budget_bytes(), kBudgetBytes);
  }
  EXPECT_GT(server.budget_bytes(), server.used_bytes());
}

TEST_P(BudgetContractTest, BudgetAboveTheServersIsRefused) {
  ASSERT_OK_AND_ASSIGN(const ServerStatus server,
                       connection().Call(DescribeServerRequest()));
  uint64_t device_bytes = 0;
  for (const v1::DeviceBudget& gpu : server.device_budgets()) {
    device_bytes += gpu.budget_bytes();
  }
  const uint64_t largest = std::max(server.budget_bytes(), device_bytes);

  EXPECT_THAT(store_.In("huge").Create({.budget_bytes = largest + 1}),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_OK(store_.In("large").Create({.budget_bytes = largest}));
  EXPECT_THAT(store_.In("tiny").Create({.budget_bytes = 10}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("at least")));
}

}  // namespace
}  // namespace tensorkv::testing
