#include "service/status/update_norms.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "contract/row_ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "nlohmann/json.hpp"
#include "service/status/status_page.h"
#include "service/store/memory_tensor_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

TEST(NormOfChangeTest, IsThatOfTheDifferenceInF64) {
  Tensor before = *Tensor::Filled(DType::kF32, {1000}, 0);
  Tensor after = *Tensor::Filled(DType::kF32, {1000}, 0);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    float& from = before.mutable_elements<float>()[i];
    float& to = after.mutable_elements<float>()[i];
    from = std::sin(static_cast<float>(i)) * 1e-3f;
    to = std::cos(static_cast<float>(i)) * 1e3f;
    sum += (double{to} - from) * (double{to} - from);
  }

  EXPECT_DOUBLE_EQ(NormOfChange(before, after).value(), std::sqrt(sum));
}

TEST(NormOfChangeTest, KnowsFloatsOfTwoBytesAndMore) {
  for (const DType dtype :
       {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    EXPECT_EQ(NormOfChange(*Tensor::Filled(dtype, {4}, 1),
                           *Tensor::Filled(dtype, {4}, 3)),
              4)
        << NameOf(dtype);
  }
}

TEST(NormOfChangeTest, IsNoneOfOtherDTypesAndOfWhatCannotBeCompared) {
  const Tensor floats = *Tensor::Filled(DType::kF32, {4}, 1);
  const Tensor integers = *Tensor::Filled(DType::kI32, {4}, 1);

  EXPECT_EQ(NormOfChange(integers, integers), std::nullopt);
  EXPECT_EQ(NormOfChange(floats, integers), std::nullopt);
  EXPECT_EQ(NormOfChange(floats, *Tensor::Filled(DType::kF32, {2, 2}, 1)),
            std::nullopt);
}

class UpdateNormsTest : public ::testing::Test {
 protected:
  explicit UpdateNormsTest(uint64_t budget_bytes = kBudgetBytes)
      : store_({.budget_bytes = budget_bytes}, &backend_, &alarms_) {
    Init("k", {4});
  }

  void Init(const std::string& key, Shape shape) {
    InitRequest request;
    request.entries.push_back(
        {key, *Tensor::Filled(DType::kF32, std::move(shape), 1)});
    const Answer<absl::StatusOr<InitReply>> answer;
    store_.Init(std::move(request), {},
                [answer](absl::StatusOr<InitReply> reply) {
                  answer.Set(std::move(reply));
                });
    EXPECT_OK(answer.Wait());
  }
  // The value of all elements after it.
  Version Push(float value, const std::string& key = "k") {
    PushRequest request;
    request.entries.push_back(
        {key, false, *Tensor::Filled(DType::kF32, {4}, value)});
    const Answer<absl::StatusOr<PushReply>> answer;
    store_.Push(std::move(request), {},
                [answer](absl::StatusOr<PushReply> reply) {
                  answer.Set(std::move(reply));
                });
    return answer.Wait()->results.at(0).version;
  }
  UpdateNorms::Looked Look(const std::string& key,
                           uint64_t free_bytes = kBudgetBytes) {
    return norms_->Look("default", key, free_bytes);
  }
  uint64_t NumWaiting() {
    return store_.DescribeNamespace("default", {})->calls_waiting;
  }
  // Asks until the answer is some value.
  template <typename Ask>
  static auto Await(Ask ask) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    auto answer = ask();
    for (; !answer && absl::Now() < deadline; answer = ask()) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(answer) << "nothing has come for a minute";
    return answer.value_or(typename decltype(answer)::value_type());
  }
  UpdateNorm AwaitNorm(const std::string& key = "k") {
    return Await([&] { return Look(key).norm; });
  }

  static constexpr uint64_t kBudgetBytes = 256 << 20;
  CpuBackend backend_{1};
  FakeAlarms alarms_;
  MemoryTensorStore store_;
  const std::shared_ptr<UpdateNorms> norms_ =
      UpdateNorms::Create(&store_, store_.budgets().host());
};

TEST_F(UpdateNormsTest, NormIsThatOfTheNextUpdate) {
  EXPECT_EQ(Look("k").norm, std::nullopt);

  const Version version = Push(3);
  Push(100);

  const UpdateNorm norm = AwaitNorm();
  EXPECT_EQ(norm.version, version);
  EXPECT_EQ(norm.norm, 4);
}

TEST_F(UpdateNormsTest, ManyLooksAndOtherKeysLeaveItAsItIs) {
  Look("k");
  for (int i = 0; i < 100; ++i) {
    Look(absl::StrCat("none-", i % 3));
    norms_->Look("none", "k", kBudgetBytes);
  }

  Push(2);

  EXPECT_EQ(AwaitNorm().norm, 2);
}

TEST_F(UpdateNormsTest, NoMoreAreUnderWayThanThereArePlaces) {
  const size_t num_keys = UpdateNorms::kMaxKeys + 4;
  const auto name_of = [](size_t i) { return absl::StrCat("k", i); };
  for (size_t i = 0; i < num_keys; ++i) Init(name_of(i), {4});

  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < num_keys; ++i) {
      EXPECT_EQ(Look(name_of(i)).why_not.empty(), i < UpdateNorms::kMaxKeys)
          << i;
    }
    EXPECT_EQ(NumWaiting(), UpdateNorms::kMaxKeys);
  }

  // Those that were first keep their places; one that is free may be taken.
  for (size_t i = 0; i < UpdateNorms::kMaxKeys; ++i) Push(3, name_of(i));
  for (size_t i = 0; i < UpdateNorms::kMaxKeys; ++i) {
    EXPECT_EQ(AwaitNorm(name_of(i)).norm, 4) << i;
  }
  Push(4, name_of(0));
  EXPECT_TRUE(Await([&]() -> std::optional<bool> {
    if (!Look(name_of(num_keys - 1)).why_not.empty()) return std::nullopt;
    return true;
  }));
  EXPECT_EQ(NumWaiting(), UpdateNorms::kMaxKeys);
}

TEST_F(UpdateNormsTest, ValuesThatAreHeldAreBounded) {
  const int64_t third = UpdateNorms::kMaxBytes / 3 / sizeof(float);
  for (const std::string key : {"a", "b", "c", "d"}) Init(key, {third});

  EXPECT_EQ(Look("a").why_not, "");
  EXPECT_EQ(Look("b").why_not, "");
  EXPECT_EQ(Look("c").why_not, "");
  EXPECT_NE(Look("d").why_not, "");

  EXPECT_EQ(NumWaiting(), 3);
}

TEST_F(UpdateNormsTest, NoLookTakesRoomThatUpdatesMayNeed) {
  const std::string key = "other";
  Init(key, {4});
  const uint64_t bytes = 4 * sizeof(float);

  EXPECT_NE(Look(key, 2 * bytes - 1).why_not, "");
  EXPECT_EQ(NumWaiting(), 0);
  EXPECT_EQ(Look(key, 2 * bytes).why_not, "");
  // With the room that the other may take.
  EXPECT_NE(Look("k", 4 * bytes - 1).why_not, "");
  EXPECT_EQ(Look("k", 4 * bytes).why_not, "");
  EXPECT_EQ(NumWaiting(), 2);
}

// Its budget has no room for two tables.
class FullUpdateNormsTest : public UpdateNormsTest {
 protected:
  FullUpdateNormsTest() : UpdateNormsTest(1 << 20) {
    Init("table", {600 << 10 >> 4, 4});
  }

  absl::Status PushRow() {
    Tensor ids = *Tensor::Filled(DType::kI64, {1}, 7);
    PushRequest request;
    request.entries.push_back(
        {.key = "table",
         .tensor = *Tensor::Filled(DType::kF32, {1, 4}, 3),
         .rows = *RowIds::Create(std::move(ids))});
    const Answer<absl::StatusOr<PushReply>> answer;
    store_.Push(std::move(request), {},
                [answer](absl::StatusOr<PushReply> reply) {
                  answer.Set(std::move(reply));
                });
    return answer.Wait().status();
  }
};

TEST_F(FullUpdateNormsTest, LookGivesWayToAPushThatNeedsTheRoom) {
  for (int i = 0; i < 3; ++i) {
    // The one before may have yet to end.
    Await([&]() -> std::optional<bool> {
      if (!Look("table").why_not.empty()) return std::nullopt;
      return true;
    });

    EXPECT_OK(PushRow());
  }

  EXPECT_EQ(Look("table").norm, std::nullopt);
}

TEST_F(FullUpdateNormsTest, OtherReadersDoNotGiveWay) {
  PullRequest request;
  request.entries.push_back({.key = "table"});
  const Answer<absl::StatusOr<PullReply>> answer;
  store_.Pull(std::move(request), {},
              [answer](absl::StatusOr<PullReply> reply) {
                answer.Set(std::move(reply));
              });
  const absl::StatusOr<PullReply> held = answer.Wait();
  ASSERT_OK(held);

  EXPECT_THAT(PushRow(), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(UpdateNormsTest, SaysWhyThereIsNoLook) {
  Init("large", {UpdateNorms::kMaxBytes / 4 + 1});
  InitRequest request;
  request.entries.push_back({"whole", *Tensor::Filled(DType::kI32, {4}, 1)});
  store_.Init(std::move(request), {}, [](absl::StatusOr<InitReply>) {});

  EXPECT_THAT(Look("none").why_not, HasSubstr("does not exist"));
  EXPECT_THAT(Look("large").why_not, HasSubstr("64 MiB"));
  EXPECT_THAT(Look("whole").why_not, HasSubstr("i32"));
  EXPECT_EQ(NumWaiting(), 0);
}

TEST_F(UpdateNormsTest, PageHasItOfTheKeyThatIsAskedFor) {
  const auto pages = StatusPages(
      {.store = &store_,
       .budget = store_.budgets().host(),
       .namespaces = &store_,
       .summaries = &store_,
       .server = [] { return ServerStatus{.budget_bytes = kBudgetBytes}; }});
  const auto look = [&](HttpQuery query) {
    query["namespace"] = "default";
    return nlohmann::json::parse(
        *pages.at("/status.json").text(query))["looked_at"];
  };
  EXPECT_TRUE(look({}).is_null());
  EXPECT_FALSE(look({{"key", "k"}}).contains("version"));
  EXPECT_NE(look({{"key", "none"}})["why_not"], "");

  const Version version = Push(3);

  const auto looked = Await([&]() -> std::optional<nlohmann::json> {
    nlohmann::json each = look({{"key", "k"}});
    if (!each.contains("version")) return std::nullopt;
    return each;
  });
  EXPECT_EQ(looked["version"], absl::StrCat(version));
  EXPECT_EQ(looked["update_norm"], 4);
  EXPECT_EQ(looked["why_not"], "");
}

}  // namespace
}  // namespace tensorkv
