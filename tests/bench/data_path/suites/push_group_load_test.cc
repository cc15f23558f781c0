#include "bench/data_path/suites/push_group_load.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class PushGroupLoadTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect() {
    return Client::Connect({.target = server_->address()}).value();
  }

  // Workers that push to keys of their own: "a", "b", ...
  PushGroup MakeGroup(int num_workers) {
    PushGroup group = {.value = Full({4}, 1)};
    for (int i = 0; i < num_workers; ++i) {
      group.workers.push_back(Connect());
      group.keys.push_back(std::string(1, 'a' + i));
    }
    return group;
  }

  Version VersionOf(const std::string& key) {
    return Connect()->Stat({key}).value().front().version;
  }

  const std::unique_ptr<Server> server_ =
      Server::Create({.listen = "127.0.0.1:0", .metrics_listen = ""}).value();
  std::vector<absl::Duration> latencies_;
};

TEST_F(PushGroupLoadTest, InEachCallEveryWorkerPushesOnce) {
  ASSERT_OK(Connect()->Init({{"a", Full({4}, 0)}, {"b", Full({4}, 0)}}));
  PushGroupLoad load(MakeGroup(2));

  ASSERT_OK(load.Run(3, &latencies_));

  EXPECT_EQ(VersionOf("a"), 1 + 3);
  EXPECT_EQ(VersionOf("b"), 1 + 3);
  EXPECT_THAT(latencies_, SizeIs(3));
  EXPECT_EQ(load.shape().bytes_per_call, 2 * 16);
  EXPECT_EQ(load.shape().keys_per_call, 2);
}

TEST_F(PushGroupLoadTest, ACallEndsWithItsEffectAndTheLoadWithItsCleanUp) {
  ASSERT_OK(Connect()->Init("a", Full({4}, 0)));
  std::vector<int64_t> awaited;
  bool is_cleaned_up = false;
  PushGroup group = MakeGroup(1);
  group.await_effect = [&](int64_t call) {
    awaited.push_back(call);
    return absl::OkStatus();
  };
  group.clean_up = [&] { is_cleaned_up = true; };
  {
    PushGroupLoad load(std::move(group));
    ASSERT_OK(load.Run(2, &latencies_));
    ASSERT_OK(load.Run(1, &latencies_));
    EXPECT_FALSE(is_cleaned_up);
  }
  EXPECT_THAT(awaited, ElementsAre(1, 2, 3));
  EXPECT_TRUE(is_cleaned_up);
}

TEST_F(PushGroupLoadTest, AnErrorOfOneWorkerEndsTheRunOfAll) {
  ASSERT_OK(Connect()->Init("a", Full({4}, 0)));
  PushGroupLoad load(MakeGroup(2));

  EXPECT_THAT(load.Run(1000, &latencies_),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace tensorkv::bench
