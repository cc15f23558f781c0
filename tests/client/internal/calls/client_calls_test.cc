#include "client/internal/calls/client_calls.h"

#include <memory>
#include <string>
#include <vector>

#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_client.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::DestinationOf;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ClientCallsTest = testing::ScriptedClientTest;

TEST_F(ClientCallsTest, MutatingCallsAreNumbered) {
  AnswerPushes();
  Client client = MakeClient({});

  ASSERT_OK(client.Init("w", Full({2}, 1)));
  ASSERT_OK(client.Push("w", Full({2}, 1)));
  ASSERT_OK(client.Delete({"w"}));
  ASSERT_OK(client.SetRule({.name = "sgd"}));
  ASSERT_OK(client.SetHyperparameters({}));
  ASSERT_OK(client.CreateNamespace("n", {}));
  ASSERT_OK(client.DeleteNamespace("n"));

  EXPECT_EQ(script_.last<InitRequest>().call_id->sequence, 1u);
  EXPECT_EQ(script_.last<PushRequest>().call_id->sequence, 2u);
  EXPECT_EQ(script_.last<DeleteRequest>().call_id().sequence(), 3u);
  EXPECT_EQ(script_.last<SetRuleRequest>().call_id().sequence(), 4u);
  EXPECT_EQ(script_.last<SetHyperparametersRequest>().call_id().sequence(), 5u);
  EXPECT_EQ(script_.last<CreateNamespaceRequest>().call_id().sequence(), 6u);
  EXPECT_EQ(script_.last<DeleteNamespaceRequest>().call_id().sequence(), 7u);
}

TEST_F(ClientCallsTest, CallsTellThatTheirFormerOnesAreAnswered) {
  script_.statuses = {absl::OkStatus(), absl::DeadlineExceededError("late")};
  Client client = MakeClient({});

  ASSERT_OK(client.Init("w", Full({2}, 1)));
  EXPECT_EQ(script_.last<InitRequest>().call_id->answered_below, 1u);
  EXPECT_FALSE(client.SetRule({.name = "sgd"}).ok());
  EXPECT_EQ(script_.last<SetRuleRequest>().call_id().answered_below(), 2u);
  ASSERT_OK(client.SetHyperparameters({}));
  EXPECT_EQ(
      script_.last<SetHyperparametersRequest>().call_id().answered_below(), 3u);
}

TEST_F(ClientCallsTest, ReplyOfAnotherSizeIsInternal) {
  script_.reply<PullRequest>().values.resize(2);
  Client client = MakeClient({});

  EXPECT_THAT(client.Pull("w"),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("each of 1 entries, got 2")));
  EXPECT_THAT(client.Push("w", Full({2}, 1)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("got 0")));
}

TEST_F(ClientCallsTest, IdsAreOfCallsOfRowsAlone) {
  Client client = MakeClient({});
  const RefPtr<const RowIds> ids =
      *RowIds::Create(testing::Vector({1}, DType::kI64));
  const auto refused = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    HasSubstr("entry 0 (\"w\"): rows: " + what));
  };
  const auto with_ids = [&] {
    return std::vector<PushEntry>{
        {.key = "w", .tensor = Full({1, 2}, 1), .rows = ids}};
  };

  EXPECT_THAT(client.PushRows("w", nullptr, Full({1, 2}, 1)),
              refused("missing"));
  EXPECT_THAT(client.PullRows("w", nullptr), refused("missing"));
  EXPECT_THAT(client.Push(with_ids()), refused("expected none"));
  EXPECT_THAT(client.PushPull(with_ids()), refused("expected none"));
  EXPECT_THAT(client.Pull(PullRequest{.entries = {{.key = "w", .rows = ids}}}),
              refused("expected none"));
  EXPECT_THAT(script_.verbs, IsEmpty());
}

// What was moved from, perhaps.
TEST_F(ClientCallsTest, TensorsHaveElements) {
  const Tensor none = *Tensor::WithoutData(DType::kF32, {2});
  const RefPtr<const RowIds> ids =
      *RowIds::Create(testing::Vector({1}, DType::kI64));
  const auto is_refused =
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("entry 0 (\"w\"): expected f32[2] with elements"));
  for (const char* compression : {"none", "2bit", "f16", "topk"}) {
    Client client = MakeClient({});
    client.SetCompression(testing::EncodeAll(compression));

    EXPECT_THAT(client.Init("w", none), is_refused);
    EXPECT_THAT(client.Push("w", none), is_refused);
    EXPECT_THAT(client.PushPull("w", none), is_refused);
    EXPECT_THAT(client.PushRows("w", ids, none), is_refused);
  }
  EXPECT_THAT(script_.verbs, IsEmpty());
}

TEST_F(ClientCallsTest, NoElementsNeedNoMemory) {
  script_.reply<PushRequest>().results.resize(2);
  Client client = MakeClient({});

  EXPECT_OK(client.Init("w", *Tensor::WithoutData(DType::kF32, {0, 3})));
  EXPECT_OK(client.Push(
      {{.key = "w", .skip = true}, {.key = "v", .tensor = Full({0}, 1)}}));
}

// A connection that breaks because of it, or a stripe that the server ends.
TEST_F(ClientCallsTest, CallThatFailsAfterTheCallerHasCancelledIsCancelled) {
  const auto canceller = std::make_shared<Canceller>();
  Client client = MakeClient({}).WithCanceller(canceller);
  script_.statuses = {absl::AbortedError("a stripe failed"),
                      absl::AbortedError("a stripe failed")};

  EXPECT_THAT(client.Push("w", Full({2}, 1)),
              StatusIs(absl::StatusCode::kAborted));
  canceller->Cancel();

  EXPECT_THAT(client.Push("w", Full({2}, 1)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("may have")));
}

TEST_F(ClientCallsTest, ValuesComeIntoMemoryOfTheCaller) {
  Client client = MakeClient({.target = ""});
  std::vector<float> memory(2);
  const Destination destination = DestinationOf(memory);
  script_.reply<PullRequest>().values = {{5, Full({2}, 3)}};

  ASSERT_OK_AND_ASSIGN(const Value value, client.Into({destination}).Pull("w"));

  EXPECT_THAT(memory, ElementsAre(3, 3));
  EXPECT_EQ(value.tensor.data(), destination.memory.data());
  EXPECT_THAT(
      client.Into({destination, destination}).Pull("w"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one per key")));
}

TEST_F(ClientCallsTest, ValuesThatDoNotFitTheirMemoryAreInvalid) {
  Client client = MakeClient({.target = ""});
  std::vector<float> memory(2);
  const Destination destination = DestinationOf(memory);
  script_.reply<PushPullRequest>().values = {{5, Full({3}, 3)}};

  EXPECT_THAT(client.Into({destination}).PushPull("w", Full({3}, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "out of key \"w\": expected f32[3], got f32[2]"));

  EXPECT_THAT(memory, ElementsAre(0, 0));
}

TEST_F(ClientCallsTest, ErrorsNameVerbAndServerAndKeepTheirCode) {
  script_.statuses = {absl::NotFoundError("key \"w\""),
                      absl::AbortedError("round 3")};
  Client client = MakeClient({.target = "10.0.0.4:7363"});

  EXPECT_THAT(client.Pull("w"), StatusIs(absl::StatusCode::kNotFound,
                                         "Pull from 10.0.0.4:7363: key \"w\""));
  EXPECT_THAT(
      client.Push("w", Full({1}, 1)),
      StatusIs(absl::StatusCode::kAborted, "Push to 10.0.0.4:7363: round 3"));
}

TEST_F(ClientCallsTest, ErrorsKeepTheirReason) {
  script_.statuses = {testing::StatusOfReason(Reason::kRoundFailed, "round 3")};
  Client client = MakeClient({.target = "10.0.0.4:7363"});

  const absl::Status status = client.Pull("w").status();

  EXPECT_EQ(ReasonOf(status), Reason::kRoundFailed);
  EXPECT_EQ(ErrorInfoOf(status)->metadata["step"], "1");
}

TEST_F(ClientCallsTest, ErrorsOfAClientWithoutTargetHaveNoPrefix) {
  script_.statuses = {absl::NotFoundError("key \"w\"")};
  Client client = MakeClient({.target = ""});

  EXPECT_THAT(client.DeleteNamespace("w", /*uid=*/7),
              StatusIs(absl::StatusCode::kNotFound, "key \"w\""));
}

}  // namespace
}  // namespace tensorkv
