// The versions that a namespace takes from the sums of its servers.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/local/local_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/round_exchange.h"
#include "tests/contracts/caller.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Full;

// One server of which another one was restored.
class RestoredElsewhere final : public RoundExchange {
 public:
  absl::Status CheckGroup(uint32_t) const override { return absl::OkStatus(); }
  bool IsLocal(uint32_t) const override { return true; }
  void Sum(const std::string&, const RefPtr<BudgetAccount>&,
           std::vector<RoundToSum> rounds,
           std::function<void(std::vector<SummedRound>)> summed) override {
    SumOfRound sum = {.num_tensors = 1,
                      .buffer = rounds[0].tensors[0].buffer,
                      .version_floor = 1000};
    std::vector<SummedRound> ended;
    ended.push_back({0, std::move(sum)});
    summed(std::move(ended));
  }
  void Applied(const std::string&, absl::string_view, Step) override {}
  void Remove(const std::string&, const std::string& key,
              Version version) override {
    removed.emplace_back(key, version);
  }
  void Forget(const std::string&) override {}

  std::vector<std::pair<std::string, Version>> removed;
};

class MirroredVersionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    NamespaceConfig config = {.mode = Mode::kSync, .num_workers = 1};
    config.mirrored = true;
    ASSERT_OK(caller_.Create(config));
  }

  RestoredElsewhere exchange_;
  LocalConnection server_{
      {.store = {.exchange = &exchange_}, .num_threads = 1}};
  const testing::Caller caller_{server_, "n"};
};

TEST_F(MirroredVersionsTest, AreAboveTheFloorOfAllServers) {
  ASSERT_OK(caller_.Init("k", Full({4}, 0)));

  ASSERT_OK(caller_.As(0).Push("k", Full({4}, 1), 1));

  EXPECT_EQ(caller_.As(0).Pull("k")->version, 1001u);
  EXPECT_EQ(*caller_.Init("new", Full({4}, 0)), 1001u);
}

TEST_F(MirroredVersionsTest, ExchangeIsToldOfKeysThatAreReplacedOrDeleted) {
  const Version first = *caller_.Init("k", Full({4}, 0));

  const Version second = *caller_.Init("k", Full({4}, 0), OnExisting::kReplace);
  ASSERT_OK(caller_.Init("new", Full({4}, 0), OnExisting::kReplace));
  ASSERT_OK(caller_.Delete({"k", "missing"}, /*allow_missing=*/true));

  EXPECT_THAT(
      exchange_.removed,
      ::testing::ElementsAre(std::pair("k", first), std::pair("k", second)));
}

}  // namespace
}  // namespace tensorkv
