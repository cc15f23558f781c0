#include "service/status/update_norms.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "nlohmann/json.hpp"
#include "service/status/status_page.h"
#include "service/store/memory_tensor_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

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
  UpdateNormsTest() {
    InitRequest request;
    request.entries.push_back({"k", *Tensor::Filled(DType::kF32, {4}, 1)});
    const Answer<absl::StatusOr<InitReply>> answer;
    store_.Init(std::move(request), {},
                [answer](absl::StatusOr<InitReply> reply) {
                  answer.Set(std::move(reply));
                });
    EXPECT_OK(answer.Wait());
  }

  // The value of all elements after it.
  Version Push(float value) {
    PushRequest request;
    request.entries.push_back(
        {"k", false, *Tensor::Filled(DType::kF32, {4}, value)});
    const Answer<absl::StatusOr<PushReply>> answer;
    store_.Push(std::move(request), {},
                [answer](absl::StatusOr<PushReply> reply) {
                  answer.Set(std::move(reply));
                });
    return answer.Wait()->results.at(0).version;
  }
  // As soon as it is known.
  UpdateNorm Await() {
    while (true) {
      const std::optional<UpdateNorm> norm = norms_->Look("default", "k");
      if (norm) return *norm;
      std::this_thread::yield();
    }
  }

  CpuBackend backend_{1};
  SteadyAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 64 << 20}, &backend_, &alarms_};
  const std::shared_ptr<UpdateNorms> norms_ = UpdateNorms::Create(&store_);
};

TEST_F(UpdateNormsTest, NormIsThatOfTheNextUpdate) {
  EXPECT_EQ(norms_->Look("default", "k"), std::nullopt);

  const Version version = Push(3);
  Push(100);

  const UpdateNorm norm = Await();
  EXPECT_EQ(norm.version, version);
  EXPECT_EQ(norm.norm, 4);
}

TEST_F(UpdateNormsTest, ManyLooksAndOtherKeysLeaveItAsItIs) {
  norms_->Look("default", "k");
  for (int i = 0; i < 100; ++i) {
    norms_->Look("default", absl::StrCat("none-", i % 3));
    norms_->Look("none", "k");
  }

  Push(2);

  EXPECT_EQ(Await().norm, 2);
}

TEST_F(UpdateNormsTest, PageHasItOfTheKeyThatIsAskedFor) {
  const auto pages = StatusPages(
      {.store = &store_, .namespaces = &store_, .summaries = &store_});
  const auto read = [&](const std::string& query) {
    return nlohmann::json::parse(*pages.at("/status.json").text(query));
  };
  EXPECT_TRUE(read("namespace=default")["looked_at"].is_null());
  EXPECT_FALSE(
      read("namespace=default&key=k")["looked_at"].contains("version"));

  const Version version = Push(3);

  nlohmann::json looked;
  do {
    looked = read("namespace=default&key=k")["looked_at"];
  } while (!looked.contains("version"));
  EXPECT_EQ(looked["version"], absl::StrCat(version));
  EXPECT_EQ(looked["update_norm"], 4);
}

}  // namespace
}  // namespace tensorkv
