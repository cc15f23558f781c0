#include "client/internal/transfer/bulk_calls.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/compression/cast.h"
#include "contract/grpc_status.h"
#include "contract/retry_delay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/buffer.h"
#include "tests/client/fake_stream_service.h"
#include "tests/client/patterned_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::Payloads;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr size_t kMaxMessageBytes = 4096;
constexpr TransferOptions kOptions = {.part_bytes = 1000,
                                      .min_stripe_bytes = 5000};

Tensor Rising(int64_t num_elements) {
  Tensor tensor = *Tensor::Allocate(DType::kF32, {num_elements});
  float next = 0;
  for (float& element : tensor.mutable_elements<float>()) {
    element = next;
    next += 0.37f;
  }
  return tensor;
}

class BulkCallsTest : public ::testing::Test {
 protected:
  BulkCallsTest()
      : channels_(service_.Start(), kMaxMessageBytes, /*num_bulk=*/3),
        calls_(channels_, kOptions, kMaxMessageBytes,
               MakeRefCounted<BufferPool>(1 << 20)) {
    service_.part_bytes = 1000;
  }

  absl::StatusOr<InitReply> Init(const Tensor& tensor) {
    return calls_.Call(InitRequest{.entries = {{"w", tensor}}}, deadline_);
  }
  absl::StatusOr<PushReply> Push(const Tensor& tensor) {
    return calls_.Call(PushRequest{.entries = {{.key = "w", .tensor = tensor}}},
                       deadline_);
  }
  // Brings the values for a ticket of so many bytes.
  absl::StatusOr<PullReply> Bring(uint64_t size_bytes) {
    PullReply reply = {.ticket = Ticket{"ticket", size_bytes}};
    for (const Value& value : service_.values) {
      reply.values.push_back(
          {value.version,
           *Tensor::Allocate(value.tensor.dtype(), value.tensor.shape())});
    }
    const absl::Status status = calls_.Bring(reply, deadline_);
    if (!status.ok()) return status;
    return reply;
  }
  absl::StatusOr<PullReply> PushPull(
      const Tensor& tensor, absl::Span<const Destination> destinations = {}) {
    return calls_.Call(
        PushPullRequest{{.entries = {{.key = "w", .tensor = tensor}}}},
        deadline_, destinations);
  }
  // What the server got of the only entry.
  std::string Uploaded(uint64_t size) {
    return Payloads(service_.streams(), {size}, kOptions.part_bytes)[0];
  }

  FakeStreamService service_;
  ChannelPool channels_;
  BulkCalls calls_;
  CallDeadline deadline_{absl::Seconds(30)};
};

// Sizes around the ends of parts and stripes, and their stripes.
struct Cut {
  int64_t size;
  size_t num_stripes;
};

class BulkCallsSizeTest : public BulkCallsTest,
                          public ::testing::WithParamInterface<Cut> {};
INSTANTIATE_TEST_SUITE_P(
    , BulkCallsSizeTest,
    ::testing::Values(Cut{0, 1}, Cut{1, 1}, Cut{999, 1}, Cut{1000, 1},
                      Cut{1001, 1}, Cut{9999, 1}, Cut{10'000, 2},
                      Cut{10'001, 2}, Cut{14'999, 2}, Cut{15'000, 3},
                      Cut{3 * 64 * 100, 3}, Cut{3 * 64 * 100 + 1, 3},
                      Cut{1'000'003, 3}),
    [](const auto& info) { return std::to_string(info.param.size); });

TEST_P(BulkCallsSizeTest, StreamsOfATicketBringAll) {
  service_.values = {{7, Patterned(GetParam().size)}};

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Bring(GetParam().size));

  EXPECT_THAT(service_.streams(), SizeIs(GetParam().num_stripes));
  ASSERT_THAT(reply.values, SizeIs(1));
  EXPECT_EQ(reply.values[0].version, 7);
  EXPECT_EQ(BytesOf(reply.values[0].tensor),
            BytesOf(service_.values[0].tensor));
}

TEST_P(BulkCallsSizeTest, PushPullSendsAndBringsAll) {
  const Tensor tensor = Patterned(GetParam().size, 1);
  service_.values = {{7, Patterned(GetParam().size, 2)}};

  ASSERT_OK_AND_ASSIGN(const PullReply reply, PushPull(tensor));

  EXPECT_THAT(service_.streams(), SizeIs(GetParam().num_stripes));
  EXPECT_EQ(Uploaded(GetParam().size), BytesOf(tensor));
  EXPECT_EQ(BytesOf(reply.values[0].tensor),
            BytesOf(service_.values[0].tensor));
}

TEST_P(BulkCallsSizeTest, CastsArriveAsWhatTheyBecome) {
  // The first makes parts and stripes end within elements of the second.
  const Tensor first = Patterned(333);
  const Tensor second = Rising(GetParam().size);
  const Tensor cast =
      *Cast(second, {DType::kF16}, *MakeRefCounted<BufferPool>(0));

  const std::vector<SendCast> casts = {{}, {DType::kF16}};
  ASSERT_OK(
      calls_.Call(PushRequest{.entries = {{.key = "a", .tensor = first},
                                          {.key = "w", .tensor = second}}},
                  deadline_, casts));

  const auto streams = service_.streams();
  const auto sizes = TensorSizes(std::vector<Value>{{1, first}, {1, cast}});
  EXPECT_THAT(Payloads(streams, sizes, kOptions.part_bytes),
              ElementsAre(BytesOf(first), BytesOf(cast)));
  EXPECT_EQ(streams[0].push.push().entries(1).tensor().dtype(), v1::DTYPE_F16);
}

TEST_P(BulkCallsSizeTest, PartsTakeTheirShareOfWhatWasLeftOut) {
  const Tensor tensor = Rising(GetParam().size);
  const std::vector<float> before(GetParam().size, 0.7f);
  std::vector<float> after_parts(before.size());
  std::vector<float> after(before.size());
  CastFeedback in_parts{before.data(), after_parts.data()};
  CastFeedback whole{before.data(), after.data()};
  const Tensor cast =
      *Cast(tensor, {DType::kF16, &whole}, *MakeRefCounted<BufferPool>(0));

  const std::vector<SendCast> casts = {{DType::kF16, &in_parts}};
  ASSERT_OK(
      calls_.Call(PushRequest{.entries = {{.key = "w", .tensor = tensor}}},
                  deadline_, casts));

  EXPECT_EQ(Uploaded(cast.size_bytes()), BytesOf(cast));
  EXPECT_EQ(after_parts, after);
}

TEST_F(BulkCallsTest, CastOfWhatIsNotFiniteIsNoCall) {
  Tensor tensor = Rising(20'000);
  tensor.mutable_elements<float>().back() = NAN;

  // The other stripes end with the one that fails, as there is no deadline.
  EXPECT_THAT(
      calls_.Call(PushRequest{.entries = {{.key = "w", .tensor = tensor}}},
                  CallDeadline(absl::InfiniteDuration()),
                  std::vector<SendCast>{{DType::kF16}}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("key \"w\": compression: expected finite")));

  size_t bytes_sent = 0;
  for (const auto& stream : service_.streams()) {
    for (const v1::Part& part : stream.parts) bytes_sent += part.data().size();
  }
  EXPECT_LT(bytes_sent, 2 * 20'000);
}

TEST_F(BulkCallsTest, ReplyOfAnUploadComesBack) {
  service_.init_response.add_versions(3);
  service_.push_response.add_results()->set_version(4);

  ASSERT_OK_AND_ASSIGN(const InitReply init, Init(Patterned(20'000)));
  EXPECT_EQ(Uploaded(20'000), BytesOf(Patterned(20'000)));
  ASSERT_OK_AND_ASSIGN(const PushReply push, Push(Patterned(20'000)));

  EXPECT_THAT(init.versions, ElementsAre(3));
  EXPECT_THAT(push.results, ElementsAre(Field(&PushResult::version, 4)));
}

TEST_F(BulkCallsTest, ManifestIsTheCallWithoutElements) {
  ASSERT_OK(calls_.Call(
      PushRequest{.name_space = "n",
                  .call_id = CallId{"me", 5},
                  .worker = Worker{.rank = 2},
                  .step = 9,
                  .entries = {{.key = "w", .tensor = Patterned(20'000)},
                              {.key = "skipped", .skip = true}}},
      deadline_));

  const v1::PushRequest request = service_.streams().at(0).push.push();
  EXPECT_EQ(request.namespace_(), "n");
  EXPECT_EQ(request.call_id().client_id(), "me");
  EXPECT_EQ(request.call_id().sequence(), 5);
  EXPECT_EQ(request.worker().rank(), 2);
  EXPECT_EQ(request.step(), 9);
  ASSERT_EQ(request.entries_size(), 2);
  EXPECT_EQ(request.entries(0).tensor().shape(0), 20'000);
  EXPECT_THAT(request.entries(0).tensor().data(), IsEmpty());
  EXPECT_TRUE(request.entries(1).skip());
}

TEST_F(BulkCallsTest, StripesShareTheGroupOfTheirCallAndNoConnection) {
  ASSERT_OK(Push(Patterned(20'000)));

  std::set<uint64_t> groups;
  std::set<std::string> peers;
  std::vector<uint32_t> indices;
  for (const auto& stream : service_.streams()) {
    groups.insert(stream.push.stripe().group());
    peers.insert(stream.peer);
    indices.push_back(stream.stripe.index());
    EXPECT_EQ(stream.stripe.count(), 3);
  }
  EXPECT_THAT(indices, ElementsAre(0, 1, 2));
  EXPECT_THAT(groups, AllOf(SizeIs(1), Not(Contains(0))));
  EXPECT_THAT(peers, SizeIs(3)) << "on connections of their own";
}

TEST_F(BulkCallsTest, StripesOfValuesShareTheirTicket) {
  service_.values = {{7, Patterned(20'000)}};
  ASSERT_OK_AND_ASSIGN(const PullReply reply, Bring(20'000));

  EXPECT_FALSE(reply.ticket);
  for (const auto& stream : service_.streams()) {
    EXPECT_EQ(stream.pull.ticket(), "ticket");
    EXPECT_EQ(stream.pull.max_part_bytes(), kOptions.part_bytes);
  }
}

TEST_F(BulkCallsTest, CallsHaveDifferentGroups) {
  ASSERT_OK(Push(Patterned(20'000)));
  ASSERT_OK(Push(Patterned(20'000)));

  std::set<uint64_t> groups;
  for (const auto& stream : service_.streams()) {
    groups.insert(stream.push.stripe().group());
  }
  EXPECT_THAT(groups, AllOf(SizeIs(2), Not(Contains(0))));
}

TEST_F(BulkCallsTest, CallOfOneStreamHasNoGroup) {
  ASSERT_OK(Push(Patterned(100)));

  EXPECT_EQ(service_.streams()[0].push.stripe().group(), 0);
}

TEST_F(BulkCallsTest, ReplyThatIsSmallerThanItsStripesIsWhole) {
  // Stripes are multiples of 64 bytes, so the last has none.
  service_.values = {{7, Patterned(100)}};

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Bring(20'000));

  EXPECT_THAT(service_.streams(), SizeIs(3));
  EXPECT_EQ(BytesOf(reply.values[0].tensor), BytesOf(Patterned(100)));
}

TEST_F(BulkCallsTest, PartsFitTheMessageLimit) {
  ChannelPool channels(service_.Start(), /*max_message_bytes=*/1024, 1);
  BulkCalls calls(channels, {.part_bytes = 1 << 20}, 1024,
                  MakeRefCounted<BufferPool>(1 << 20));

  ASSERT_OK(calls.Call(
      PushRequest{.entries = {{.key = "w", .tensor = Patterned(5000)}}},
      deadline_));

  EXPECT_EQ(Payloads(service_.streams(), {5000}, 960)[0],
            BytesOf(Patterned(5000)));
}

TEST_F(BulkCallsTest, MetadataOverTheLimitIsNotSent) {
  const InitRequest request = {
      .entries = {{std::string(kMaxMessageBytes, 'k'), Patterned(100)}}};

  EXPECT_THAT(calls_.Call(request, deadline_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("expected at most 4096")));

  EXPECT_THAT(service_.rpcs(), IsEmpty());
}

TEST_F(BulkCallsTest, StripeThatFailsNamesTheReason) {
  service_.after_manifest = [](const v1::Stripe& stripe) {
    return stripe.index() == 1
               ? grpc::Status(grpc::StatusCode::NOT_FOUND, "key")
               : grpc::Status::OK;
  };
  service_.values = {{7, Patterned(20'000)}};

  EXPECT_THAT(Push(Patterned(20'000)),
              StatusIs(absl::StatusCode::kNotFound, "key"));
  EXPECT_THAT(PushPull(Patterned(20'000)),
              StatusIs(absl::StatusCode::kNotFound, "key"));
  EXPECT_THAT(Bring(20'000), StatusIs(absl::StatusCode::kNotFound, "key"));
}

TEST_F(BulkCallsTest, AbortedThatIsNotAboutAnotherStripeIsTheCallsToo) {
  service_.status = grpc::Status(grpc::StatusCode::ABORTED, "round 7");

  EXPECT_THAT(Push(Patterned(20'000)),
              StatusIs(absl::StatusCode::kAborted, "round 7"));
}

TEST_F(BulkCallsTest, QuotaOfFewerStreamsThanStripesIsKept) {
  service_.after_manifest = [](const v1::Stripe& stripe) {
    if (stripe.index() == 0) return grpc::Status::OK;
    return ToGrpcStatus(WithRetryDelay(absl::ResourceExhaustedError("quota"),
                                       absl::Milliseconds(100)));
  };

  EXPECT_THAT(Push(Patterned(20'000)),
              StatusIs(absl::StatusCode::kResourceExhausted, "quota"));
  EXPECT_OK(Push(Patterned(20'000)).status());
}

TEST_F(BulkCallsTest, StripeThatEndsEarlyFailsTheCall) {
  service_.values = {{7, Patterned(20'000)}};
  service_.edit = [](const v1::Stripe& stripe,
                     std::vector<v1::PullChunk>* chunks) {
    if (stripe.index() == 2) chunks->pop_back();
  };

  EXPECT_THAT(Bring(20'000), StatusIs(absl::StatusCode::kInternal,
                                      HasSubstr("bytes of stripe 2")));
}

TEST_F(BulkCallsTest, UploadWithoutAReplyIsAnError) {
  service_.status = grpc::Status(grpc::StatusCode::DATA_LOSS, "disk");

  EXPECT_THAT(Push(Patterned(100)),
              StatusIs(absl::StatusCode::kDataLoss, "disk"));
}

TEST_F(BulkCallsTest, ServerThatStopsReadingIsDeadlineExceeded) {
  Notification go_on;
  service_.after_manifest = [&](const v1::Stripe&) {
    go_on.WaitForNotification();
    return grpc::Status::OK;
  };
  const Tensor large = Patterned(8 << 20);

  EXPECT_THAT(
      calls_.Call(PushRequest{.entries = {{.key = "w", .tensor = large}}},
                  CallDeadline(absl::Milliseconds(1))),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               "no answer from the server within 1ms"));

  go_on.Notify();
  service_.Stop();
}

TEST_P(BulkCallsSizeTest, DestinationsGetTheOnlyCopy) {
  service_.values = {{7, Patterned(GetParam().size)}};
  std::string memory(GetParam().size, ' ');
  const Destination destination = {DType::kU8, Shape({GetParam().size}),
                                   absl::MakeSpan(memory)};

  ASSERT_OK_AND_ASSIGN(const PullReply reply,
                       PushPull(Patterned(GetParam().size), {destination}));

  EXPECT_EQ(reply.values[0].tensor.data(), memory.data());
  EXPECT_EQ(memory, BytesOf(Patterned(GetParam().size)));
}

// Stripe 1 is still to come when the deadline passes.
TEST_F(BulkCallsTest, NobodyWritesToDestinationsAfterTheCall) {
  Notification go_on;
  service_.values = {{7, Patterned(20'000)}};
  service_.edit = [&](const v1::Stripe& stripe, std::vector<v1::PullChunk>*) {
    if (stripe.index() == 1) go_on.WaitForNotification();
  };
  std::string memory(20'000, ' ');
  const Destination destination = {DType::kU8, Shape({20'000}),
                                   absl::MakeSpan(memory)};

  EXPECT_THAT(calls_.Call(
                  PushPullRequest{
                      {.entries = {{.key = "w", .tensor = Patterned(20'000)}}}},
                  CallDeadline(absl::Milliseconds(100)), {destination}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  memory.assign(20'000, 'x');
  go_on.Notify();
  service_.Stop();

  EXPECT_EQ(memory, std::string(20'000, 'x'));
}

TEST_F(BulkCallsTest, FailedCallLetsGoOfItsTensors) {
  service_.after_manifest = [](const v1::Stripe&) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "key");
  };
  const std::string memory(1 << 20, 'x');
  // gRPC may let go on a thread of its own, which outlives the test.
  const auto is_released = std::make_shared<Notification>();
  Tensor tensor = *Tensor::FromBuffer(
      DType::kU8, Shape({1 << 20}),
      MakeRefCounted<AdoptedBuffer>(memory.data(), memory.size(),
                                    [=] { is_released->Notify(); }));

  EXPECT_THAT(Push(tensor), StatusIs(absl::StatusCode::kNotFound));
  tensor = Tensor();

  is_released->WaitForNotification();
}

TEST_F(BulkCallsTest, CallsAtTheSameTimeShareTheConnections) {
  const auto push = [this] { EXPECT_OK(Push(Patterned(20'000))); };

  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(push);
  for (std::thread& thread : threads) thread.join();

  size_t num_stripes_missing = 0;
  for (const auto& stream : service_.streams()) {
    // The only stripe of a call is left out.
    if (stream.stripe.index() == 0) {
      num_stripes_missing += std::max(stream.stripe.count(), 1u);
    }
    --num_stripes_missing;
  }
  EXPECT_EQ(num_stripes_missing, 0);
}

TEST_F(BulkCallsTest, NoServerIsUnavailable) {
  service_.Stop();

  EXPECT_THAT(Push(Patterned(20'000)),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Bring(20'000), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv
