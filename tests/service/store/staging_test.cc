// Staging by MemoryTensorStore: checks without effect, memory that is counted
// once, and tensors that become values without a copy.

#include "service/store/staging.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::InitNow;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

// That of the scripted store.
constexpr uint64_t kBudgetBytes = 1 << 20;
// Elements of a tensor that has a buffer of its own.
constexpr int64_t kLarge = kOwnBufferBytes / sizeof(float);

Tensor Unfilled(Shape shape = {kLarge}) {
  return *Tensor::WithoutData(DType::kF32, std::move(shape));
}

void Fill(Tensor& tensor, float value) {
  for (float& element : tensor.mutable_elements<float>()) element = value;
}

float Last(const Value& value) { return value.tensor.elements<float>().back(); }

class StagingTest : public testing::ScriptedStoreTest {
 protected:
  Tensor Staged(float value, Shape shape = {kLarge},
                const std::string& name_space = "") {
    Tensor tensor = Unfilled(std::move(shape));
    EXPECT_OK(store_.Allocate(name_space, {&tensor}));
    Fill(tensor, value);
    return tensor;
  }

  static InitRequest InitOf(Tensor tensor, const std::string& key = "w") {
    InitRequest request;
    request.entries.push_back({key, std::move(tensor)});
    return request;
  }
  static PushRequest PushOf(Tensor tensor, const std::string& key = "w") {
    PushRequest request;
    request.entries.push_back({key, false, std::move(tensor)});
    return request;
  }
  static PushRequest SyncPush(uint32_t rank, Step step, Tensor tensor) {
    PushRequest request = PushOf(std::move(tensor));
    request.name_space = "sync";
    request.worker = Worker{rank, 0};
    request.step = step;
    return request;
  }

  absl::Status Init(InitRequest request) {
    return InitNow(store_, std::move(request)).status();
  }
  absl::Status Push(PushRequest request) {
    absl::Status status = absl::InternalError("no answer yet");
    store_.Push(std::move(request), {}, [&](absl::StatusOr<PushReply> reply) {
      status = reply.status();
    });
    return status;
  }
  Value Pull(const std::string& key = "w", const std::string& name_space = "") {
    PullRequest request;
    request.name_space = name_space;
    request.entries.push_back({key, 0});
    Value value;
    store_.Pull(std::move(request), {}, [&](absl::StatusOr<PullReply> reply) {
      ASSERT_OK(reply);
      value = reply->values[0];
    });
    return value;
  }
  void Delete(const std::string& key) {
    EXPECT_OK(testing::MakeNow(store_, testing::DeleteOf({key})));
  }
  void CreateSyncNamespace(uint32_t num_workers) {
    ASSERT_OK(testing::MakeNow(
        store_, testing::CreateOf("sync", {.mode = Mode::kSync,
                                           .num_workers = num_workers})));
    InitRequest init = InitOf(*Tensor::Filled(DType::kF32, {kLarge}, 0));
    init.name_space = "sync";
    ASSERT_OK(Init(std::move(init)));
  }
  v1::MemoryUse Memory(const std::string& name_space = "") {
    return testing::Described(store_, name_space).memory();
  }
  // Without what is remembered of rounds, which rises with the steps.
  uint64_t UsedBesideMetadata() {
    return store_.used_bytes() - Memory("sync").metadata();
  }
};

TEST_F(StagingTest, CheckOfAnInitNeedsNoElementsAndChangesNothing) {
  EXPECT_OK(store_.CheckInit(InitOf(Unfilled())));

  EXPECT_EQ(store_.used_bytes(), 0u);
  EXPECT_EQ(testing::Described(store_).num_keys(), 0u);
}

TEST_F(StagingTest, CheckOfAnInitFindsWhatTheInitWould) {
  ASSERT_OK(Init(InitOf(Staged(1))));
  InitRequest unknown = InitOf(Unfilled(), "v");
  unknown.name_space = "absent";
  InitRequest other_shape = InitOf(Unfilled({3}));
  other_shape.on_existing = OnExisting::kKeep;

  EXPECT_THAT(store_.CheckInit(InitOf(Unfilled())),
              StatusIs(StatusCode::kAlreadyExists));
  EXPECT_THAT(store_.CheckInit(InitOf(Unfilled(), "\x01")),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_.CheckInit(unknown), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_.CheckInit(other_shape),
              StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(StagingTest, CheckOfAnInitFindsARuleThatDoesNotTakeTheDtype) {
  ASSERT_OK(testing::MakeNow(store_, testing::SetRuleOf("sgd")));

  EXPECT_THAT(store_.CheckInit(InitOf(*Tensor::WithoutData(DType::kI32, {4}))),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(StagingTest, CheckOfAnInitKnowsTheBudget) {
  const int64_t half = kBudgetBytes / 2 / sizeof(float);

  EXPECT_OK(store_.CheckInit(InitOf(Unfilled({half}))));
  EXPECT_THAT(store_.CheckInit(InitOf(Unfilled({2 * half}))),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(store_.CheckInit(InitOf(Unfilled({int64_t{1} << 60}))),
              StatusIs(StatusCode::kResourceExhausted));
  ASSERT_OK(testing::MakeNow(store_, testing::SetRuleOf("sgd(momentum=0.9)")));
  EXPECT_THAT(store_.CheckInit(InitOf(Unfilled({half}))),
              StatusIs(StatusCode::kResourceExhausted));
}

TEST_F(StagingTest, CheckOfAPushFindsWhatThePushWould) {
  ASSERT_OK(Init(InitOf(Staged(1))));

  EXPECT_OK(store_.CheckPush(PushOf(Unfilled())));
  EXPECT_THAT(store_.CheckPush(PushOf(Unfilled(), "absent")),
              StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_.CheckPush(PushOf(Unfilled({3}))),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected f32[1024], got f32[3]")));
  EXPECT_EQ(Pull().version, 1u);
}

TEST_F(StagingTest, CheckOfAPushKnowsTheBudget) {
  const int64_t third = kBudgetBytes / 3 / sizeof(float);
  ASSERT_OK(Init(InitOf(Staged(1, {third}))));

  // A contribution and room for a new value: together with the value too much.
  EXPECT_THAT(store_.CheckPush(PushOf(Unfilled({third}))),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(Memory().values(), third * sizeof(float));
  EXPECT_EQ(Memory().contributions(), 0u);
}

TEST_F(StagingTest, CheckOfAPushFindsASecondContribution) {
  CreateSyncNamespace(2);
  ASSERT_OK(Push(SyncPush(0, 1, Staged(1, {kLarge}, "sync"))));

  EXPECT_THAT(store_.CheckPush(SyncPush(0, 1, Unfilled())),
              StatusIs(StatusCode::kAlreadyExists));
  EXPECT_OK(store_.CheckPush(SyncPush(1, 1, Unfilled())));
  EXPECT_OK(store_.CheckPush(SyncPush(1, 1, Unfilled())));
}

TEST_F(StagingTest, CheckOfAPushFindsAStepToPushAgain) {
  CreateSyncNamespace(1);
  backend_.FailApply(absl::InternalError("broken"));
  ASSERT_OK(Push(SyncPush(0, 1, *Tensor::Filled(DType::kF32, {kLarge}, 1))));
  backend_.FailApply(absl::OkStatus());

  EXPECT_THAT(store_.CheckPush(SyncPush(0, 2, Unfilled())),
              StatusIs(StatusCode::kAborted));
  EXPECT_OK(store_.CheckPush(SyncPush(0, 1, Unfilled())));
  EXPECT_OK(Push(SyncPush(0, 1, Staged(1, {kLarge}, "sync"))));
}

TEST_F(StagingTest, StagedMemoryCountsUntilItIsDropped) {
  {
    const Tensor tensor = Staged(1);
    EXPECT_EQ(Memory().contributions(), kOwnBufferBytes);
  }

  EXPECT_EQ(store_.used_bytes(), 0u);
}

TEST_F(StagingTest, AllocateWithoutRoomIsRefused) {
  Tensor tensor = Unfilled({int64_t{1} << 60});
  Tensor unknown = Unfilled();

  EXPECT_THAT(store_.Allocate("", {&tensor}),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(store_.Allocate("absent", {&unknown}),
              StatusIs(StatusCode::kNotFound));
  EXPECT_EQ(store_.used_bytes(), 0u);
}

TEST_F(StagingTest, StagedInitBecomesTheValueWithoutACopy) {
  Tensor tensor = Staged(3);
  const char* const memory = tensor.data();

  ASSERT_OK(Init(InitOf(std::move(tensor))));

  EXPECT_EQ(Pull().tensor.data(), memory);
  EXPECT_EQ(Last(Pull()), 3);
  EXPECT_EQ(Memory().values(), kOwnBufferBytes);
  EXPECT_EQ(Memory().contributions(), 0u);
  Delete("w");
  EXPECT_EQ(store_.used_bytes(), 0u);
}

TEST_F(StagingTest, StagedInitNeedsNoMoreThanItsOwnMemory) {
  const int64_t elements = (kBudgetBytes - 4096) / sizeof(float);

  EXPECT_OK(store_.CheckInit(InitOf(Unfilled({elements}))));
  EXPECT_OK(Init(InitOf(Staged(3, {elements}))));
}

TEST_F(StagingTest, InitOfSmallStagedTensorsCopiesThemOut) {
  std::vector<Tensor> tensors(3, Unfilled({5}));
  ASSERT_OK(store_.Allocate("", {&tensors[0], &tensors[1], &tensors[2]}));
  InitRequest request;
  for (int i = 0; i < 3; ++i) {
    Fill(tensors[i], i);
    request.entries.push_back({absl::StrCat("k", i), std::move(tensors[i])});
  }

  ASSERT_OK(Init(std::move(request)));

  EXPECT_EQ(Last(Pull("k2")), 2);
  EXPECT_EQ(Memory().contributions(), 0u);
  EXPECT_EQ(Memory().values(), 3 * 5 * sizeof(float));
}

TEST_F(StagingTest, CheckOfARepeatedCallDoesNotHoldItAgainstItself) {
  InitRequest request = InitOf(Staged(1));
  request.call_id = CallId{"c", 1};
  InitRequest repeat = InitOf(*Tensor::WithoutData(DType::kF32, {kLarge}));
  repeat.call_id = request.call_id;
  InitRequest other = repeat;
  other.call_id->sequence = 2;
  ASSERT_OK(Init(std::move(request)));

  EXPECT_OK(store_.CheckInit(repeat));
  EXPECT_THAT(store_.CheckInit(other), StatusIs(StatusCode::kAlreadyExists));
}

TEST_F(StagingTest, InitThatFailsOrKeepsGivesStagedMemoryBack) {
  ASSERT_OK(Init(InitOf(Staged(1))));
  const uint64_t used = store_.used_bytes();
  for (const OnExisting on_existing : {OnExisting::kFail, OnExisting::kKeep}) {
    InitRequest again = InitOf(Staged(2));
    again.on_existing = on_existing;

    EXPECT_EQ(Init(std::move(again)).ok(), on_existing == OnExisting::kKeep);

    EXPECT_EQ(store_.used_bytes(), used);
    EXPECT_EQ(Last(Pull()), 1);
  }
}

TEST_F(StagingTest, AssignTakesTheStagedBufferAsTheValue) {
  ASSERT_OK(Init(InitOf(Staged(1))));
  const uint64_t used = store_.used_bytes();
  Tensor tensor = Staged(2);
  const char* const memory = tensor.data();

  ASSERT_OK(Push(PushOf(std::move(tensor))));

  EXPECT_EQ(Pull().tensor.data(), memory);
  EXPECT_EQ(Pull().version, 2u);
  EXPECT_EQ(store_.used_bytes(), used);
  EXPECT_EQ(Memory().values(), kOwnBufferBytes);
}

// There is room for what is pushed and for a new value, not for a copy.
TEST_F(StagingTest, PushWithoutRoomForWhatClippingCopiesChangesNothing) {
  ASSERT_OK(testing::MakeNow(
      store_, testing::CreateOf("n", {.budget_bytes = 4 * kOwnBufferBytes - 1,
                                      .gradient_guard = {.max_norm = 1}})));
  InitRequest init = InitOf(Staged(1, {kLarge}, "n"));
  init.name_space = "n";
  ASSERT_OK(Init(std::move(init)));
  const auto push = [&](float element) {
    const Tensor seen_by_others = Staged(element, {kLarge}, "n");
    PushRequest request = PushOf(seen_by_others);
    request.name_space = "n";
    return Push(std::move(request));
  };

  ASSERT_OK(push(1e-6f));
  EXPECT_THAT(push(1), StatusIs(StatusCode::kResourceExhausted));

  EXPECT_EQ(Last(Pull("w", "n")), 1e-6f);
  EXPECT_EQ(Pull("w", "n").version, 2u);
  EXPECT_TRUE(testing::Described(store_, "n").guard_counts().empty());
}

TEST_F(StagingTest, TakenOverBufferIsUpdatedInPlaceLater) {
  ASSERT_OK(Init(InitOf(Staged(1))));
  const char* const memory = Pull().tensor.data();
  ASSERT_OK(testing::MakeNow(store_, testing::SetRuleOf("accumulate")));

  ASSERT_OK(Push(PushOf(Staged(2))));

  EXPECT_EQ(Pull().tensor.data(), memory);
  EXPECT_EQ(Last(Pull()), 3);
  EXPECT_EQ(Memory().contributions(), 0u);
}

TEST_F(StagingTest, TensorThatItsCallerKeepsIsCopied) {
  ASSERT_OK(Init(InitOf(Staged(1))));
  Tensor kept = Staged(2);

  ASSERT_OK(Push(PushOf(kept)));

  EXPECT_NE(Pull().tensor.data(), kept.data());
  EXPECT_EQ(Last(Pull()), 2);
  EXPECT_EQ(Memory().contributions(), kOwnBufferBytes);
  kept = Tensor();
  EXPECT_EQ(Memory().contributions(), 0u);
}

TEST_F(StagingTest, TensorPushedForTwoKeysIsCountedOnce) {
  ASSERT_OK(Init(InitOf(Staged(1), "a")));
  ASSERT_OK(Init(InitOf(Staged(1), "b")));
  const Tensor tensor = Staged(2);
  PushRequest request = PushOf(tensor, "a");
  request.entries.push_back({"b", false, tensor});

  ASSERT_OK(Push(std::move(request)));

  EXPECT_EQ(Last(Pull("a")), 2);
  EXPECT_EQ(Last(Pull("b")), 2);
  EXPECT_EQ(Memory().values(), 2 * kOwnBufferBytes);
  EXPECT_EQ(Memory().contributions(), kOwnBufferBytes);
}

TEST_F(StagingTest, SumOfStagedTensorsIsCountedExactly) {
  ASSERT_OK(Init(InitOf(Staged(1))));
  const uint64_t used = store_.used_bytes();
  PushRequest request = PushOf(Staged(2));
  request.entries.push_back({"w", false, Staged(3)});

  ASSERT_OK(Push(std::move(request)));

  EXPECT_EQ(Last(Pull()), 5);
  EXPECT_EQ(store_.used_bytes(), used);
}

TEST_F(StagingTest, RoundOfStagedContributionsIsCountedExactly) {
  CreateSyncNamespace(2);
  for (uint32_t rank : {0, 1})
    ASSERT_OK(
        Push(SyncPush(rank, 1, *Tensor::Filled(DType::kF32, {kLarge}, 0))));
  const uint64_t used = UsedBesideMetadata();

  ASSERT_OK(Push(SyncPush(0, 2, Staged(1, {kLarge}, "sync"))));
  EXPECT_EQ(Memory("sync").contributions(), kOwnBufferBytes);
  ASSERT_OK(Push(SyncPush(1, 2, Staged(2, {kLarge}, "sync"))));

  EXPECT_EQ(Last(Pull("w", "sync")), 3);
  EXPECT_EQ(UsedBesideMetadata(), used);
}

TEST_F(StagingTest, RoundOfOneContributionTakesItsBuffer) {
  CreateSyncNamespace(1);
  ASSERT_OK(Push(SyncPush(0, 1, *Tensor::Filled(DType::kF32, {kLarge}, 0))));
  const uint64_t used = UsedBesideMetadata();
  Tensor tensor = Staged(1, {kLarge}, "sync");
  const char* const memory = tensor.data();

  ASSERT_OK(Push(SyncPush(0, 2, std::move(tensor))));

  EXPECT_EQ(Pull("w", "sync").tensor.data(), memory);
  EXPECT_EQ(UsedBesideMetadata(), used);
}

TEST_F(StagingTest, TensorOfAnotherNamespaceIsReservedAndCopied) {
  CreateSyncNamespace(1);
  ASSERT_OK(Init(InitOf(Staged(1))));
  Tensor foreign = Staged(2, {kLarge}, "sync");
  const char* const memory = foreign.data();

  ASSERT_OK(Push(PushOf(std::move(foreign))));

  EXPECT_NE(Pull().tensor.data(), memory);
  EXPECT_EQ(Last(Pull()), 2);
  EXPECT_EQ(Memory("sync").contributions(), 0u);
  EXPECT_EQ(Memory().contributions(), 0u);
}

TEST_F(StagingTest, ReadersSeeNoTornValueWhileBuffersAreTakenOver) {
  ASSERT_OK(Init(InitOf(Staged(0))));
  const uint64_t used = store_.used_bytes();
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      const Tensor tensor = Pull().tensor;
      const auto elements = tensor.elements<float>();
      EXPECT_EQ(std::count(elements.begin(), elements.end(), elements[0]),
                kLarge);
    }
  });

  for (int i = 1; i <= 200; ++i) EXPECT_OK(Push(PushOf(Staged(i))));
  stop = true;
  reader.join();

  EXPECT_EQ(Last(Pull()), 200);
  EXPECT_EQ(store_.used_bytes(), used);
}

TEST_F(StagingTest, PushThatFailsInTheBackendGivesEverythingBack) {
  ASSERT_OK(Init(InitOf(Staged(1))));
  ASSERT_OK(Init(InitOf(*Tensor::Filled(DType::kF32, {4}, 1), "small")));
  const uint64_t used = store_.used_bytes();
  PushRequest request = PushOf(Staged(2));
  request.entries.push_back({"small", false, Staged(2, {4})});
  backend_.FailApply(absl::InternalError("broken"));

  EXPECT_THAT(Push(std::move(request)), StatusIs(StatusCode::kInternal));

  EXPECT_EQ(Last(Pull()), 1);
  EXPECT_EQ(Last(Pull("small")), 1);
  EXPECT_EQ(store_.used_bytes(), used);
}

}  // namespace
}  // namespace tensorkv
