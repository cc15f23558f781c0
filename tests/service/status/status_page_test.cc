#include "service/status/status_page.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "nlohmann/json.hpp"
#include "service/rpc/incarnation.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace {

using Json = nlohmann::json;

// The pages of a store with a group of workers, not all of whom have joined.
class StatusPagesTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kNumWorkers = 40;

  StatusPagesTest() {
    EXPECT_OK(testing::MakeNow(
        store_, testing::CreateOf("group", {.mode = Mode::kSync,
                                            .num_workers = kNumWorkers})));
  }

  void InitKey(const std::string& key) {
    InitRequest request;
    request.name_space = "group";
    request.entries.push_back({key, *Tensor::Filled(DType::kF32, {2}, 0)});
    EXPECT_OK(calls_.MakeAndWait(std::move(request)));
  }
  Worker Join(const std::string& name) {
    return WorkerOf(testing::MakeNow(store_, testing::JoinOf("group", name,
                                                             absl::Minutes(10)))
                        ->worker());
  }
  // The round stays open, so nobody waits for its end.
  void Push(const Worker& worker, const std::string& key, Step step) {
    PushRequest request;
    request.name_space = "group";
    request.worker = worker;
    request.step = step;
    request.entries.push_back(
        {key, false, *Tensor::Filled(DType::kF32, {2}, 1)});
    EXPECT_OK(calls_.MakeAndWait(std::move(request)));
  }
  Json Rounds() {
    const absl::StatusOr<std::string> text =
        pages_.at("/status/OpenRounds").text({{"namespace", "group"}});
    EXPECT_OK(text);
    return Json::parse(*text)["rounds"];
  }

  CpuBackend backend_{1};
  SteadyAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 64 << 20}, &backend_, &alarms_};
  const CallDispatch calls_{
      {.store = &store_, .namespaces = &store_, .staging = &store_}};
  const Incarnation incarnation_{1};
  const std::map<std::string, HttpPage, std::less<>> pages_ =
      StatusPages({.calls = &calls_, .incarnation = &incarnation_}, &store_);
};

TEST_F(StatusPagesTest, RoundsOfTheLowestStepsComeFirst) {
  const Worker ahead = Join("ahead");
  for (const std::string key : {"a", "b"}) {
    InitKey(key);
    for (Step step = 1; step <= 2; ++step) Push(ahead, key, step);
  }

  const Json rounds = Rounds();

  ASSERT_EQ(rounds.size(), 4u);
  for (size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(rounds[i]["step"], i / 2 + 1);
    EXPECT_EQ(rounds[i]["key"], i % 2 == 0 ? "a" : "b");
    EXPECT_EQ(rounds[i]["num_missing"], kNumWorkers - 1);
  }
}

TEST_F(StatusPagesTest, HasTheFirstRoundsAndRanksOfMany) {
  const Worker ahead = Join("ahead");
  for (int i = 0; i < 120; ++i) {
    const std::string key = absl::StrCat("k", 100 + i);
    InitKey(key);
    Push(ahead, key, 1);
  }

  const Json rounds = Rounds();

  ASSERT_EQ(rounds.size(), 100u);
  EXPECT_EQ(rounds.back()["key"], "k199");
  EXPECT_EQ(rounds[0]["missing"].size(), 32u);
}

TEST_F(StatusPagesTest, TellsWhatStepsWere) {
  const Worker gone = Join("gone");
  InitKey("a");
  Push(gone, "a", 1);
  DeleteRequest removal;
  removal.set_namespace_("group");
  removal.add_keys("a");
  EXPECT_OK(calls_.MakeAndWait(std::move(removal)));

  const absl::StatusOr<std::string> text =
      pages_.at("/status/Steps").text({{"namespace", "group"}});

  ASSERT_OK(text);
  const Json steps = Json::parse(*text)["steps"];
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["step"], "1");
  EXPECT_EQ(steps[0]["failures"][0]["reason"], "its key was deleted");
  EXPECT_EQ(steps[0]["failures"][0]["came"].size(), 1u);
  // Nothing is counted of it.
  EXPECT_EQ(steps[0]["workers"].size(), 0u);
}

}  // namespace
}  // namespace tensorkv
