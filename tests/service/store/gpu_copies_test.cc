// What a store on a GPU asks of it for a call, counted on a fake one.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/gpu_store.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/keyspace/snapshots/kept_snapshot.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"

namespace tensorkv {
namespace {

using ::testing::AnyOf;
using testing::CallbackOf;
using ::testing::Each;

class GpuCopiesTest : public testing::GpuStoreTest {
 protected:
  // More than go into a table that travels with its launch.
  static constexpr int kNumKeys = 2'000;

  // What the GPU has been asked for.
  struct Counts {
    int64_t copies = 0;
    int64_t launches = 0;
    int64_t allocations = 0;
    int64_t waits = 0;
  };

  GpuCopiesTest() : GpuStoreTest(/*budget_bytes=*/128 << 20) {}

  static std::string KeyOf(int i) { return absl::StrCat("k", i); }

  void InitKeys(int num_keys, int64_t size,
                const std::string& name_space = "") {
    InitRequest request;
    request.name_space = name_space;
    for (int i = 0; i < num_keys; ++i) {
      request.entries.push_back({KeyOf(i), Filled(size, 1)});
    }
    ASSERT_OK(testing::InitNow(*store_, std::move(request)));
  }

  // A push whose tensors are where receivers put them, each full of its number.
  PushRequest StagedPush(int num_keys, int64_t size,
                         const std::string& name_space = "") {
    PushRequest request;
    request.name_space = name_space;
    std::vector<Tensor*> tensors;
    request.entries.resize(num_keys);
    for (int i = 0; i < num_keys; ++i) {
      PushEntry& entry = request.entries[i];
      entry.key = KeyOf(i);
      entry.tensor = *Tensor::WithoutData(DType::kF32, *Shape::Create({size}));
      tensors.push_back(&entry.tensor);
    }
    EXPECT_OK(store_->Allocate(name_space, tensors, {}));
    for (int i = 0; i < num_keys; ++i) {
      for (float& element : tensors[i]->mutable_elements<float>()) {
        element = static_cast<float>(i);
      }
    }
    return request;
  }

  std::vector<float> ValueOf(const std::string& name_space,
                             const std::string& key) {
    const Answer<absl::StatusOr<PullReply>> answer;
    store_->Pull({.name_space = name_space, .entries = {{key}}}, {},
                 CallbackOf(answer));
    const absl::StatusOr<PullReply> reply = answer.Wait();
    if (!reply.ok()) return {};
    const absl::Span<const float> elements =
        reply->values[0].tensor.elements<float>();
    return {elements.begin(), elements.end()};
  }

  Counts Total() const {
    return {gpu_.num_copies(), gpu_.num_launches(), gpu_.num_allocations(),
            gpu_.num_waits()};
  }
  // What a push takes.
  Counts CountPush(PushRequest request) {
    const Counts before = Total();
    const Answer<absl::StatusOr<PushReply>> answer;
    store_->Push(std::move(request), {}, CallbackOf(answer));
    EXPECT_OK(answer.Wait());
    const Counts after = Total();
    return {after.copies - before.copies, after.launches - before.launches,
            after.allocations - before.allocations, after.waits - before.waits};
  }
};

// The kernel reads the contributions where they were received.
TEST_F(GpuCopiesTest, PushOfManySmallKeysIsATableAndAKernel) {
  ASSERT_OK(testing::MakeNow(*store_, testing::SetRuleOf("accumulate", "*")));
  for (const int64_t size : {64, 1024}) {
    const std::string name_space = absl::StrCat("n", size);
    ASSERT_OK(testing::MakeNow(*store_, testing::CreateOf(name_space)));
    ASSERT_OK(testing::MakeNow(
        *store_, testing::SetRuleOf("accumulate", "*", name_space)));
    InitKeys(kNumKeys, size, name_space);
    CountPush(StagedPush(kNumKeys, size, name_space));  // makes room for tables

    const Counts push = CountPush(StagedPush(kNumKeys, size, name_space));

    EXPECT_EQ(push.copies, 1);  // the table
    EXPECT_EQ(push.launches, 1);
    EXPECT_EQ(push.allocations, 0);
    EXPECT_EQ(push.waits, 1);
    for (const int i : {0, 7, kNumKeys - 1}) {
      EXPECT_THAT(ValueOf(name_space, KeyOf(i)), Each(1 + 2 * i));
    }
  }
}

// So there need be no room for a copy, neither when the push comes nor before
// its elements have.
TEST_F(GpuCopiesTest, ContributionThatIsReadInPlaceTakesNothingOfTheDevice) {
  constexpr int64_t kSize = 10'000;  // 40 KB: the value, and room for the next
  ASSERT_OK(Init("filler", Filled((128 << 18) - 2 * kSize - kSize / 2, 1)));
  InitKeys(1, kSize);
  const auto push_of = [](Tensor tensor) {
    PushRequest request;
    request.entries.push_back({KeyOf(0), false, std::move(tensor)});
    return request;
  };

  EXPECT_OK(
      store_->CheckPush(push_of(*Tensor::WithoutData(DType::kF32, {kSize}))));
  EXPECT_EQ(CountPush(StagedPush(1, kSize)).copies, 0);

  // What lies elsewhere is copied to the device.
  EXPECT_THAT(Push(KeyOf(0), Filled(kSize, 1)),
              testing::StatusIs(absl::StatusCode::kResourceExhausted,
                                ::testing::HasSubstr("fake:0")));
}

// Its table travels with the kernel.
TEST_F(GpuCopiesTest, PushOfOneLargeKeyIsOneTransferAndOneKernel) {
  ASSERT_OK(testing::MakeNow(*store_, testing::SetRuleOf("accumulate", "*")));
  InitKeys(1, 1 << 19);

  const Counts push = CountPush(StagedPush(1, 1 << 19));

  EXPECT_EQ(push.copies, 1);
  EXPECT_EQ(push.launches, 1);
  EXPECT_EQ(push.allocations, 1);
  EXPECT_EQ(push.waits, 1);
}

// The update is with the device before the bytes are there, and Push returns:
// no thread of the caller's or of the store's waits.
TEST_F(GpuCopiesTest, PushIsStartedBeforeItsBytesHaveArrived) {
  ASSERT_OK(testing::MakeNow(*store_, testing::SetRuleOf("accumulate", "*")));
  InitKeys(1, 100'000);
  PushRequest request = StagedPush(1, 100'000);
  for (float& element : request.entries[0].tensor.mutable_elements<float>()) {
    element = 41;
  }
  gpu_.Hold(StreamUse::kToDevice);
  const Answer<absl::StatusOr<PushReply>> answer;

  store_->Push(std::move(request), {}, CallbackOf(answer));

  // The orders behind uploads and allocations, the kernel, the record.
  gpu_.WaitForQueued(StreamUse::kCompute, 4);
  EXPECT_FALSE(answer.HasArrived());
  gpu_.Release(StreamUse::kToDevice);
  EXPECT_OK(answer.Wait());
  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"k0"}));
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(42));
}

// A value that is kept as it came is published when it is there.
TEST_F(GpuCopiesTest, AssignedTensorIsPublishedWhenItHasArrived) {
  InitKeys(1, 100'000);
  PushRequest request = StagedPush(1, 100'000);
  gpu_.Hold(StreamUse::kToDevice);
  const Answer<absl::StatusOr<PushReply>> answer;

  store_->Push(std::move(request), {}, CallbackOf(answer));

  EXPECT_FALSE(answer.HasArrived());
  gpu_.Release(StreamUse::kToDevice);
  EXPECT_OK(answer.Wait());
  EXPECT_EQ(
      testing::Described(*store_).device_memory()[0].memory().contributions(),
      0u);
}

TEST_F(GpuCopiesTest, UploadThatFailsFailsItsPush) {
  InitKeys(1, 100'000);
  ASSERT_OK(testing::MakeNow(*store_, testing::SetRuleOf("accumulate", "*")));
  for (const bool is_started : {false, true}) {
    PushRequest request = StagedPush(1, 100'000);
    if (is_started) {
      gpu_.FailWork(0, absl::InternalError("injected"));
    } else {
      // Allocate, record, order; then the copy.
      gpu_.FailCall(3, absl::InternalError("injected"));
    }
    const Answer<absl::StatusOr<PushReply>> answer;
    store_->Push(std::move(request), {}, CallbackOf(answer));

    EXPECT_THAT(answer.Wait(),
                testing::StatusIs(is_started ? absl::StatusCode::kUnavailable
                                             : absl::StatusCode::kInternal,
                                  ::testing::HasSubstr("injected")));
    if (is_started) break;
    ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"k0"}));
    EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(1));
    EXPECT_EQ(reply.values[0].version, 1u);
  }
}

// What is in page-locked memory takes no thread of the pool on its way.
TEST_F(GpuCopiesTest, LargePushIsWithTheDeviceWhenTheCallReturns) {
  ASSERT_OK(testing::MakeNow(*store_, testing::SetRuleOf("accumulate", "*")));
  InitKeys(1, 1 << 19);
  PushRequest request = StagedPush(1, 1 << 19);
  gpu_.Hold(StreamUse::kToDevice);
  gpu_.Hold(StreamUse::kCompute);
  const Answer<absl::StatusOr<PushReply>> answer;

  store_->Push(std::move(request), {}, CallbackOf(answer));

  EXPECT_TRUE(gpu_.HasQueued(StreamUse::kToDevice, 1));
  EXPECT_TRUE(gpu_.HasQueued(StreamUse::kCompute, 1));
  gpu_.Release(StreamUse::kCompute);
  gpu_.Release(StreamUse::kToDevice);
  EXPECT_OK(answer.Wait());
}

// The first eight contributions of each key become one, and perhaps those that
// follow; the last closes the round.
TEST_F(GpuCopiesTest, RoundOfManyKeysIsAFewKernels) {
  constexpr uint32_t kWorkers = 9;
  for (const Aggregation aggregation :
       {Aggregation::kSum, Aggregation::kMean}) {
    const bool is_mean = aggregation == Aggregation::kMean;
    const std::string name = is_mean ? "mean" : "sum";
    ASSERT_OK(testing::MakeNow(
        *store_, testing::CreateOf(name, {.mode = Mode::kSync,
                                          .num_workers = kWorkers,
                                          .aggregation = aggregation})));
    InitKeys(kNumKeys, 64, name);
    const Counts before = Total();

    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      PushRequest push = StagedPush(kNumKeys, 64, name);
      push.worker = Worker{.rank = rank};
      push.step = 1;
      for (PushEntry& entry : push.entries) {
        if (is_mean) entry.weight = rank + 1;
      }
      CountPush(std::move(push));
    }

    const Answer<absl::StatusOr<PullReply>> answer;
    store_->Pull({.name_space = name, .entries = {{KeyOf(7), 2}}}, {},
                 CallbackOf(answer));
    ASSERT_OK_AND_ASSIGN(const PullReply reply, answer.Wait());
    EXPECT_THAT(reply.values[0].tensor.elements<float>(),
                Each(is_mean ? 7 : 7 * kWorkers));
    EXPECT_LE(Total().launches - before.launches, 4);
  }
}

// What weighs nothing is not copied. That the guard skips what has been copied
// shows only then.
TEST_F(GpuCopiesTest, WhatIsSkippedKeepsTheMemoryThatItIsCopiedTo) {
  constexpr int64_t kSize = 75 << 10;  // 300 KiB
  NamespaceConfig config = {.aggregation = Aggregation::kMean};
  config.gradient_guard.on_non_finite = OnNonFinite::kSkip;
  ASSERT_OK(testing::MakeNow(*store_, testing::CreateOf("mean", config)));
  InitKeys(3, kSize, "mean");
  for (const bool is_skipped_by_guard : {false, true}) {
    PushRequest request = StagedPush(3, kSize, "mean");
    request.entries[0].weight = is_skipped_by_guard ? 1 : 0;
    request.entries[0].tensor.mutable_elements<float>()[0] = NAN;

    const Counts push = CountPush(std::move(request));

    EXPECT_EQ(push.copies, is_skipped_by_guard ? 3 : 2);
    EXPECT_THAT(ValueOf("mean", KeyOf(0)), Each(1));
    EXPECT_THAT(ValueOf("mean", KeyOf(2)), Each(2));
  }
}

// What follows an update that runs is copied meanwhile.
TEST_F(GpuCopiesTest, PushToABusyKeyIsCopiedAtOnce) {
  ASSERT_OK(testing::MakeNow(*store_, testing::SetRuleOf("accumulate", "*")));
  InitKeys(1, 1 << 17);
  const auto push_of = [this](float value) {
    PushRequest request = StagedPush(1, 1 << 17);
    for (float& element : request.entries[0].tensor.mutable_elements<float>()) {
      element = value;
    }
    return request;
  };
  PushRequest first = push_of(2);
  PushRequest second = push_of(3);
  const int64_t copies_before = Total().copies;
  gpu_.Hold(StreamUse::kCompute);
  const Answer<absl::StatusOr<PushReply>> first_answer;
  const Answer<absl::StatusOr<PushReply>> second_answer;

  store_->Push(std::move(first), {}, CallbackOf(first_answer));
  store_->Push(std::move(second), {}, CallbackOf(second_answer));

  while (Total().copies < copies_before + 2) std::this_thread::yield();
  gpu_.Release(StreamUse::kCompute);
  EXPECT_OK(first_answer.Wait());
  EXPECT_OK(second_answer.Wait());
  EXPECT_THAT(ValueOf("", KeyOf(0)), Each(1 + 2 + 3));
}

// The update waits until the checkpoint has its copy of the key's states.
TEST_F(GpuCopiesTest, PushToAKeyThatACheckpointCopiesBringsItsElements) {
  ASSERT_OK(testing::MakeNow(
      *store_, testing::SetRuleOf("nag(learning_rate=1, momentum=0)", "*")));
  InitKeys(2, 100'000);
  const auto push = [this](int num_keys) {
    PushRequest request = StagedPush(num_keys, 100'000);
    for (PushEntry& entry : request.entries) {
      for (float& element : entry.tensor.mutable_elements<float>()) {
        element = -2;
      }
    }
    const Answer<absl::StatusOr<PushReply>> answer;
    store_->Push(std::move(request), {}, CallbackOf(answer));
    return answer.Wait().status();
  };
  ASSERT_OK(push(2));  // fills the states
  for (const int num_keys : {1, 2}) {
    testing::KeptSnapshot snapshot(
        [&](const NamespaceSnapshot&) { return push(num_keys); });

    ASSERT_OK(store_->TakeSnapshot({}, snapshot));
  }

  EXPECT_THAT(ValueOf("", KeyOf(0)), Each(1 + 3 * 2));
  EXPECT_THAT(ValueOf("", KeyOf(1)), Each(1 + 2 * 2));
}

TEST_F(GpuCopiesTest, CheckpointHasTheStatesOfAKeyThatIsDeletedMeanwhile) {
  ASSERT_OK(testing::MakeNow(
      *store_, testing::SetRuleOf("nag(learning_rate=1, momentum=0.5)", "*")));
  InitKeys(1, 100'000);
  PushRequest request = StagedPush(1, 100'000);
  for (float& element : request.entries[0].tensor.mutable_elements<float>()) {
    element = -2;
  }
  const Answer<absl::StatusOr<PushReply>> answer;
  store_->Push(std::move(request), {}, CallbackOf(answer));
  ASSERT_OK(answer.Wait());
  testing::KeptSnapshot snapshot([&](const NamespaceSnapshot&) {
    return testing::MakeNow(*store_, testing::DeleteOf({KeyOf(0)})).status();
  });

  ASSERT_OK(store_->TakeSnapshot({}, snapshot));

  ASSERT_EQ(snapshot.keys.size(), 1u);
  const Tensor& state = snapshot.keys[0].states.at(0).tensor;
  EXPECT_THAT(state.elements<float>(), Each(AnyOf(2, -2)));
}

// The second update needs a thread that waits for the device. The one that ends
// the first is the device's own.
TEST_F(GpuCopiesTest, StoreEndsBehindUpdatesThatWaitForOthers) {
  InitKeys(1, 100'000);
  gpu_.Hold(StreamUse::kCompute);
  const Answer<absl::StatusOr<PushReply>> first;
  store_->Push(StagedPush(1, 100'000), {}, CallbackOf(first));
  const Answer<absl::StatusOr<PushReply>> second;
  PushRequest rows = StagedPush(1, 1);
  rows.entries[0].rows = *RowIds::Create(*Tensor::Filled(DType::kI64, {1}, 0));
  store_->Push(std::move(rows), {}, CallbackOf(second));
  const Answer<absl::StatusOr<PullReply>> waiting;
  store_->Pull({.entries = {{KeyOf(0), 100}}}, {}, CallbackOf(waiting));

  std::thread end([this] { store_ = nullptr; });

  EXPECT_FALSE(waiting.Wait().ok());  // the end has begun
  gpu_.Release(StreamUse::kCompute);
  EXPECT_OK(first.Wait());
  EXPECT_OK(second.Wait());
  end.join();
}

TEST_F(GpuCopiesTest, AssignedTensorIsTransferredAndKept) {
  InitKeys(1, 1 << 20);

  const Counts push = CountPush(StagedPush(1, 1 << 20));

  EXPECT_EQ(push.copies, 1);
  EXPECT_EQ(push.launches, 0);
  EXPECT_EQ(push.allocations, 1);
  const v1::MemoryUse use =
      testing::Described(*store_).device_memory(0).memory();
  EXPECT_EQ(use.values(), 4u << 20);
  EXPECT_EQ(use.contributions(), 0u);
  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"k0"}));
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(0));
}

TEST_F(GpuCopiesTest, PullOfALargeKeyIsOneTransferToWhereItIsSentFrom) {
  InitKeys(1, 1 << 20);
  const Counts before = Total();

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull({"k0"}));

  EXPECT_EQ(Total().copies - before.copies, 1);
  EXPECT_EQ(backend_->usage().pinned_bytes_in_use, 4u << 20);
  EXPECT_THAT(reply.values[0].tensor.elements<float>(), Each(1));
}

// The kernel writes the values to where they are sent from.
TEST_F(GpuCopiesTest, PullOfManyKeysIsATableAndAKernel) {
  InitKeys(kNumKeys, 1023);  // with gaps between them
  std::vector<std::string> keys;
  for (int i = 0; i < kNumKeys; ++i) keys.push_back(KeyOf(i));
  CountPush(StagedPush(kNumKeys, 1023));
  const Counts before = Total();

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Pull(keys));

  EXPECT_EQ(Total().copies - before.copies, 1);  // the table
  EXPECT_EQ(Total().launches - before.launches, 1);
  EXPECT_EQ(Total().waits - before.waits, 1);
  for (const int i : {0, 1, 1400, 1700, kNumKeys - 1}) {
    EXPECT_THAT(reply.values[i].tensor.elements<float>(), Each(i));
  }
}

}  // namespace
}  // namespace tensorkv
