#include "client/pipeline.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gated_connection.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::Gate;
using ::tensorkv::testing::GatedConnection;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class PipelineTest : public ::testing::Test {
 protected:
  PipelineTest()
      : client_(std::make_unique<GatedConnection>(gate_), {.target = ""}) {}

  Gate gate_;
  Client client_;
};

template <typename T>
bool IsReady(const std::future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

TEST_F(PipelineTest, VerbsHaveTheirResults) {
  Pipeline pipeline(&client_);
  const std::vector<std::string> keys = {"a", "b"};

  EXPECT_THAT(pipeline.Push("w", Full({1}, 1)).get(), IsOk());
  EXPECT_THAT(pipeline.Pull("w").get(), IsOk());
  EXPECT_THAT(pipeline.PushPull("w", Full({1}, 1)).get(), IsOk());
  EXPECT_THAT(pipeline.Push({{.key = "a"}, {.key = "b"}}).get()->results,
              SizeIs(2));
  EXPECT_THAT(pipeline.Pull(keys).get()->values, SizeIs(2));
  EXPECT_THAT(pipeline.PushPull({{.key = "a"}, {.key = "b"}}).get()->values,
              SizeIs(2));

  EXPECT_THAT(gate_.begun(), ElementsAre("Push w", "Pull w", "PushPull w",
                                         "Push a", "Pull a", "PushPull a"));
}

TEST_F(PipelineTest, ErrorsAreThoseOfTheirCalls) {
  gate_.Fail("Push bad", absl::NotFoundError("key"));
  Pipeline pipeline(&client_);

  auto bad = pipeline.Push("bad", Full({1}, 1));
  auto good = pipeline.Push("good", Full({1}, 1));

  EXPECT_THAT(bad.get(), StatusIs(absl::StatusCode::kNotFound, "key"));
  EXPECT_THAT(good.get(), IsOk());
}

TEST_F(PipelineTest, CallsOfDifferentKeysRunAtTheSameTime) {
  gate_.Close();
  Pipeline pipeline(&client_);

  pipeline.Push("a", Full({1}, 1));
  pipeline.Pull("b");
  pipeline.PushPull("c", Full({1}, 1));

  gate_.WaitForWaiting(3);
  EXPECT_THAT(gate_.begun(),
              UnorderedElementsAre("Push a", "Pull b", "PushPull c"));
  gate_.Open();
}

TEST_F(PipelineTest, CallBehindOneThatFailedRuns) {
  gate_.Fail("Push w", absl::AbortedError("round 7"));
  Pipeline pipeline(&client_);

  auto push = pipeline.Push("w", Full({1}, 1));
  auto pull = pipeline.Pull("w");

  EXPECT_THAT(push.get(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(pull.get(), IsOk());
}

TEST_F(PipelineTest, CallOfManyKeysKeepsTheOrderOfEach) {
  gate_.Close();
  Pipeline pipeline(&client_);

  pipeline.Push("a", Full({1}, 1));
  pipeline.Push({{.key = "b"}, {.key = "a"}});
  pipeline.Pull("b");

  gate_.WaitForWaiting(1);
  gate_.LetPass("Push a");
  gate_.LetPass("Push b");
  gate_.Open();
  const std::vector<std::string> keys = {"a", "b"};
  EXPECT_THAT(pipeline.Pull(keys).get(), IsOk());
  EXPECT_THAT(gate_.begun(),
              ElementsAre("Push a", "Push b", "Pull b", "Pull a"));
}

TEST_F(PipelineTest, HigherPrioritiesOvertakeWhatWaitsForAThread) {
  gate_.Close();
  {
    Pipeline pipeline(&client_, {.max_running = 1});
    pipeline.Pull("first");
    gate_.WaitForWaiting(1);
    pipeline.Pull("low", 0, {.priority = -1});
    pipeline.Push("a", Full({1}, 1));
    pipeline.PushPull("high", Full({1}, 1), {}, {.priority = 2});
    pipeline.Push("b", Full({1}, 1), {});
    pipeline.Pull("higher", 0, {.priority = 3});
    gate_.Open();
  }

  EXPECT_THAT(gate_.begun(),
              ElementsAre("Pull first", "Pull higher", "PushPull high",
                          "Push a", "Push b", "Pull low"));
}

TEST_F(PipelineTest, PrioritiesKeepTheOrderOfEachKey) {
  gate_.Close();
  {
    Pipeline pipeline(&client_, {.max_running = 1});
    pipeline.Pull("first");
    gate_.WaitForWaiting(1);
    pipeline.Push("w", Full({1}, 1), {}, {.priority = -1});
    pipeline.Pull("w", 0, {.priority = 9});
    pipeline.Pull("other");
    gate_.Open();
  }

  EXPECT_THAT(gate_.begun(),
              ElementsAre("Pull first", "Pull other", "Push w", "Pull w"));
}

TEST_F(PipelineTest, ACallThatIsCancelledWhileItWaitsIsNotMade) {
  gate_.Close();
  Pipeline pipeline(&client_, {.max_running = 1});
  const auto canceller = std::make_shared<Canceller>();
  pipeline.Pull("first");
  gate_.WaitForWaiting(1);
  auto cancelled =
      pipeline.Push("w", Full({1}, 1), {}, {.canceller = canceller});
  auto other = pipeline.Pull("w");

  canceller->Cancel();
  gate_.Open();

  EXPECT_THAT(cancelled.get(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(other.get(), IsOk());
  EXPECT_THAT(gate_.begun(), ElementsAre("Pull first", "Pull w"));
}

// Remembers what calls are bounded by; gives back zeros.
class OptionsConnection final : public Connection {
 public:
  explicit OptionsConnection(std::vector<absl::Duration>& timeouts)
      : timeouts_(timeouts) {}

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    timeouts_.push_back(options.timeout);
    return call.Visit([](const auto& request, auto& reply) {
      if constexpr (requires { request.entries, reply.values; }) {
        reply.values.push_back({.version = 1, .tensor = Full({1}, 7)});
      }
      return absl::OkStatus();
    });
  }

 private:
  std::vector<absl::Duration>& timeouts_;
};

TEST(PipelineBoundsTest, AreThoseOfTheirCallAlone) {
  std::vector<absl::Duration> timeouts;
  Client client(std::make_unique<OptionsConnection>(timeouts),
                {.target = "", .timeout = absl::Seconds(9)});
  Pipeline pipeline(&client, {.max_running = 1});
  float pulled = 0;
  const std::vector<Destination> into = {
      {.shape = {1},
       .memory = absl::MakeSpan(reinterpret_cast<char*>(&pulled), 4)}};

  EXPECT_THAT(
      pipeline.Pull("w", 0, {.timeout = absl::Seconds(3), .into = into}).get(),
      IsOk());
  EXPECT_THAT(pipeline.Pull("w").get(), IsOk());

  EXPECT_EQ(pulled, 7);
  EXPECT_THAT(timeouts, ElementsAre(absl::Seconds(3), absl::Seconds(9)));
}

TEST_F(PipelineTest, FullWindowBlocks) {
  gate_.Close();
  Pipeline pipeline(&client_, {.max_in_flight = 2});
  pipeline.Pull("a");
  pipeline.Pull("b");
  gate_.WaitForWaiting(2);

  Background third([&] { return pipeline.Pull("c"); });
  gate_.LetPass("Pull a");
  gate_.WaitForBegun(3);

  EXPECT_EQ(gate_.most_waiting(), 2);
  gate_.Open();
  EXPECT_THAT(third.Result().get(), IsOk());
}

TEST_F(PipelineTest, CallsThatWaitForTheirTurnFillTheWindow) {
  gate_.Close();
  Pipeline pipeline(&client_, {.max_in_flight = 2});
  pipeline.Pull("w");
  pipeline.Pull("w");

  Background third([&] { return pipeline.Pull("free"); });
  gate_.WaitForWaiting(1);
  EXPECT_THAT(gate_.begun(), ElementsAre("Pull w"));
  gate_.Open();

  EXPECT_THAT(third.Result().get(), IsOk());
}

TEST_F(PipelineTest, FullBytesBlock) {
  gate_.Close();
  Pipeline pipeline(&client_, {.max_bytes = 100});
  pipeline.Push("a", Full({60}, 1, DType::kU8));

  Background second(
      [&] { return pipeline.Push("b", Full({60}, 1, DType::kU8)); });
  gate_.WaitForWaiting(1);
  gate_.LetPass("Push a");
  gate_.LetPass("Push b");

  EXPECT_THAT(second.Result().get(), IsOk());
  EXPECT_EQ(gate_.most_waiting(), 1);
}

TEST_F(PipelineTest, BytesWithinTheLimitDoNotBlock) {
  gate_.Close();
  Pipeline pipeline(&client_, {.max_bytes = 120});

  pipeline.Push("a", Full({60}, 1, DType::kU8));
  pipeline.Push("b", Full({60}, 1, DType::kU8));
  pipeline.Pull("c");

  gate_.WaitForWaiting(3);
  gate_.Open();
}

TEST_F(PipelineTest, LargeCallIsNotOvertakenWhileItWaitsForRoom) {
  gate_.Close();
  Pipeline pipeline(&client_, {.max_bytes = 100});
  pipeline.Push("a", Full({60}, 1, DType::kU8));
  gate_.WaitForWaiting(1);

  Background large(
      [&] { return pipeline.Push("large", Full({200}, 1, DType::kU8)); });
  while (pipeline.num_blocked() < 1) std::this_thread::yield();
  Background small([&] { return pipeline.Pull("small"); });
  while (pipeline.num_blocked() < 2) std::this_thread::yield();
  gate_.LetPass("Push a");
  gate_.WaitForBegun(2);

  EXPECT_EQ(gate_.begun()[1], "Push large");
  gate_.Open();
  EXPECT_THAT(large.Result().get(), IsOk());
  EXPECT_THAT(small.Result().get(), IsOk());
}

TEST_F(PipelineTest, CallOverTheByteLimitGoesAlone) {
  Pipeline pipeline(&client_, {.max_bytes = 10});

  EXPECT_THAT(pipeline.Push("a", Full({60}, 1, DType::kU8)).get(), IsOk());
}

TEST_F(PipelineTest, DestructorWaitsForAllCalls) {
  gate_.Close();
  std::optional<Pipeline> pipeline(std::in_place, &client_);
  auto first = pipeline->Pull("w");
  auto second = pipeline->Pull("w");

  Background destruction([&] {
    pipeline.reset();
    return true;
  });
  gate_.WaitForWaiting(1);
  EXPECT_FALSE(destruction.IsDone());
  gate_.Open();
  destruction.Result();

  EXPECT_TRUE(IsReady(first));
  EXPECT_TRUE(IsReady(second));
}

TEST_F(PipelineTest, ManyThreadsMaySubmit) {
  Pipeline pipeline(&client_, {.max_in_flight = 4});
  std::vector<std::thread> threads;

  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pipeline, t] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_OK(
            pipeline.PushPull(absl::StrCat("k", (t + i) % 5), Full({1}, 1))
                .get());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_THAT(gate_.begun(), SizeIs(200));
  EXPECT_LE(gate_.most_waiting(), 4);
}

TEST_F(PipelineTest, TensorsAreLetGoBeforeTheirFutureIsReady) {
  Pipeline pipeline(&client_);
  const Tensor tensor = Full({8}, 1);

  ASSERT_OK(pipeline.Push("w", tensor).get());

  EXPECT_TRUE(tensor.buffer()->IsUnique());
}

}  // namespace
}  // namespace tensorkv
