#include "client/internal/data_calls.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_stream_service.h"
#include "tests/client/patterned_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace data_calls_test {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kThreshold = 1 << 20;
constexpr size_t kMaxMessageBytes = 4 << 20;

class DataCallsTest : public ::testing::Test {
 protected:
  DataCallsTest()
      : channels_(service_.Start(), kMaxMessageBytes, /*num_bulk=*/2),
        calls_(channels_, {.stream_threshold_bytes = kThreshold},
               kMaxMessageBytes) {}

  absl::Status Init(int64_t size) {
    return calls_.Init({.entries = {{"w", Patterned(size)}}}, {}).status();
  }
  absl::Status Push(int64_t size) {
    return calls_.Push(PushOf(size), {}).status();
  }
  absl::Status PushPull(int64_t size) {
    return calls_.PushPull(PushOf(size), {}).status();
  }
  absl::Status Pull(const std::string& key = "w") {
    return calls_.Pull({.entries = {{key}}}, {}).status();
  }
  PushRequest PushOf(int64_t size) {
    return {.entries = {{.key = "w", .tensor = Patterned(size)}}};
  }
  // What the server has behind "w".
  void Store(int64_t size) {
    service_.values = {{7, Patterned(size)}};
    service_.pull_response.Clear();
    ToProto(PullReply{service_.values}, &service_.pull_response);
  }

  FakeStreamService service_;
  ChannelPool channels_;
  DataCalls calls_;
};

TEST_F(DataCallsTest, LittlePayloadIsOneMessage) {
  Store(kThreshold - 1);

  ASSERT_OK(Init(kThreshold - 1));
  ASSERT_OK(Push(kThreshold - 1));
  ASSERT_OK(PushPull(kThreshold - 1));
  ASSERT_OK(Pull());

  EXPECT_THAT(service_.rpcs(), ElementsAre("Init", "Push", "PushPull", "Pull"));
}

TEST_F(DataCallsTest, MuchPayloadIsAStream) {
  Store(kThreshold);

  ASSERT_OK(Init(kThreshold));
  ASSERT_OK(Push(kThreshold));
  ASSERT_OK(PushPull(kThreshold));

  EXPECT_THAT(service_.rpcs(),
              ElementsAre("InitStream", "PushStream", "PushPullStream"));
}

TEST_F(DataCallsTest, ManySmallTensorsAreOneMessage) {
  InitRequest request;
  for (int i = 0; i < 2000; ++i) {
    request.entries.push_back({absl::StrCat("k", i), Patterned(1024)});
  }

  ASSERT_OK(calls_.Init(request, {}));

  EXPECT_THAT(service_.rpcs(), ElementsAre("Init"));
}

TEST_F(DataCallsTest, ManySmallTensorsThatDoNotFitAreAStream) {
  InitRequest request;
  for (int i = 0; i < 5000; ++i) {
    request.entries.push_back({absl::StrCat("k", i), Patterned(1024)});
  }

  ASSERT_OK(calls_.Init(request, {}));

  EXPECT_THAT(service_.rpcs(), ElementsAre("InitStream"));
}

TEST_F(DataCallsTest, PayloadThatJustFitsButForItsMetadataIsAStream) {
  DataCalls calls(channels_, {.stream_threshold_bytes = ~uint64_t{0}},
                  kMaxMessageBytes);

  ASSERT_OK(calls.Push(PushOf(kMaxMessageBytes), {}));

  EXPECT_THAT(service_.rpcs(), ElementsAre("PushStream"));
}

TEST_F(DataCallsTest, ThresholdOfZeroStreamsEverything) {
  DataCalls calls(channels_, {.stream_threshold_bytes = 0}, kMaxMessageBytes);

  ASSERT_OK(calls.Push({}, {}));
  ASSERT_OK(calls.Push(PushOf(1), {}));

  EXPECT_THAT(service_.rpcs(), ElementsAre("PushStream", "PushStream"));
}

TEST_F(DataCallsTest, PullOfAKeyThatWasStoredLargeIsAStream) {
  Store(kThreshold);
  ASSERT_OK(Init(kThreshold));

  ASSERT_OK(Pull());

  EXPECT_THAT(service_.rpcs(), ElementsAre("InitStream", "PullStream"));
}

TEST_F(DataCallsTest, PullOfAKeyThatWasPulledLargeIsAStream) {
  Store(kThreshold);

  ASSERT_OK(Pull());
  ASSERT_OK(Pull());

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "PullStream"));
}

TEST_F(DataCallsTest, PullOfAKeyThatBecameSmallIsOneMessageAgain) {
  Store(kThreshold);
  ASSERT_OK(Push(kThreshold));
  Store(100);

  ASSERT_OK(Pull());
  ASSERT_OK(Pull());

  EXPECT_THAT(service_.rpcs(), ElementsAre("PushStream", "PullStream", "Pull"));
}

TEST_F(DataCallsTest, FailedCallTeachesNothing) {
  Store(100);
  service_.status = grpc::Status(grpc::StatusCode::NOT_FOUND, "namespace");
  EXPECT_THAT(Push(kThreshold), StatusIs(absl::StatusCode::kNotFound));
  service_.status = grpc::Status::OK;

  ASSERT_OK(Pull());

  EXPECT_THAT(service_.rpcs(), ElementsAre("PushStream", "Pull"));
}

TEST_F(DataCallsTest, PushPullOfAKeyThatIsSkippedStreamsForItsReply) {
  Store(kThreshold);
  ASSERT_OK(Init(kThreshold));

  ASSERT_OK(calls_.PushPull({.entries = {{.key = "w", .skip = true}}}, {}));

  EXPECT_THAT(service_.rpcs(), ElementsAre("InitStream", "PushPullStream"));
}

TEST_F(DataCallsTest, PullThatIsRefusedForItsSizeIsMadeAsAStream) {
  Store(2 * kMaxMessageBytes);

  ASSERT_OK_AND_ASSIGN(const PullReply reply,
                       calls_.Pull({.entries = {{"w"}}}, {}));

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "PullStream"));
  EXPECT_EQ(BytesOf(reply.values.at(0).tensor),
            BytesOf(service_.values[0].tensor));
}

TEST_F(DataCallsTest, PushPullWhoseReplyIsTooLargeIsMadeAsAStream) {
  Store(2 * kMaxMessageBytes);
  PushRequest request = PushOf(1);
  request.call_id = {.client_id = "c", .sequence = 1};

  ASSERT_OK_AND_ASSIGN(const PullReply reply, calls_.PushPull(request, {}));

  EXPECT_THAT(service_.rpcs(), ElementsAre("PushPull", "PushPullStream"));
  EXPECT_EQ(BytesOf(reply.values.at(0).tensor),
            BytesOf(service_.values[0].tensor));
  EXPECT_EQ(service_.streams().at(0).push.request().call_id().sequence(), 1);
}

TEST_F(DataCallsTest, PushPullThatMayHaveBeenMadeIsNotMadeAgainWithoutAName) {
  Store(2 * kMaxMessageBytes);

  EXPECT_THAT(PushPull(1), StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_THAT(service_.rpcs(), ElementsAre("PushPull"));
}

TEST_F(DataCallsTest, CallOverItsBudgetIsMadeOnce) {
  service_.status = ToGrpcStatus(
      WithReason(absl::ResourceExhaustedError("budget"), Reason::kOverBudget));

  EXPECT_THAT(Pull(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(PushPull(1), StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "PushPull"));
}

TEST_F(DataCallsTest, PullThatIsRefusedOtherwiseSaysSo) {
  service_.status =
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "calls waiting");

  EXPECT_THAT(Pull(),
              StatusIs(absl::StatusCode::kResourceExhausted, "calls waiting"));
}

TEST_F(DataCallsTest, NoTimeLeftIsDeadlineExceededWithoutACall) {
  const CallOptions no_time = {.timeout = absl::ZeroDuration()};

  EXPECT_THAT(calls_.Init({}, no_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(calls_.Push(PushOf(kThreshold), no_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(calls_.Pull({}, no_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(calls_.PushPull({}, no_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded));

  EXPECT_THAT(service_.rpcs(), IsEmpty());
}

}  // namespace data_calls_test
}  // namespace tensorkv
