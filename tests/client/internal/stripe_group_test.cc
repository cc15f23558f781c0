#include "client/internal/stripe_group.h"

#include <set>
#include <string>

#include "client/internal/message_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_stream_service.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::StatusIs;
using ::testing::SizeIs;

constexpr char kPushStream[] = "/tensorkv.v1.TensorKV/PushStream";

grpc::ByteBuffer Manifest(const Stripe& stripe) {
  v1::PushChunk chunk;
  chunk.mutable_manifest()->mutable_stripe()->set_index(stripe.index);
  chunk.mutable_manifest()->mutable_stripe()->set_count(stripe.count);
  return *Serialize(chunk, 1 << 20);
}

// A whole push without parts.
absl::Status Push(StripeStream& stream, const Stripe& stripe) {
  stream.Write(Manifest(stripe), /*is_last=*/true);
  grpc::ByteBuffer reply;
  if (!stream.Read(&reply)) return absl::InternalError("no reply");
  stream.Read(&reply);
  return absl::OkStatus();
}

class StripeGroupTest : public ::testing::Test {
 protected:
  StripeGroupTest()
      : channels_(service_.Start(), /*max_message_bytes=*/1 << 20,
                  /*num_bulk=*/3) {}

  StripeGroup MakeGroup(uint32_t most_stripes) {
    return StripeGroup(channels_, threads_, kPushStream, most_stripes,
                       CallDeadline(absl::Seconds(30)));
  }
  // Has one stripe fail as soon as the server has seen it.
  void FailStripe(uint32_t index, grpc::Status status) {
    service_.after_manifest = [=](const v1::Stripe& stripe) {
      return stripe.index() == index ? status : grpc::Status::OK;
    };
  }

  FakeStreamService service_;
  ChannelPool channels_;
  StripeThreads threads_{2};
};

TEST_F(StripeGroupTest, StripesHaveStreamsOnConnectionsOfTheirOwn) {
  ASSERT_OK(MakeGroup(3).Run(Push));

  std::set<std::string> peers;
  for (const auto& stream : service_.streams()) peers.insert(stream.peer);
  EXPECT_THAT(service_.streams(), SizeIs(3));
  EXPECT_THAT(peers, SizeIs(3));
}

TEST_F(StripeGroupTest, ThereAreNoMoreStripesThanConnections) {
  EXPECT_EQ(MakeGroup(1).num_stripes(), 1);
  EXPECT_EQ(MakeGroup(64).num_stripes(), 3);
}

TEST_F(StripeGroupTest, CallBesideAnotherTakesWhatIsIdle) {
  StripeGroup first = MakeGroup(2);
  StripeGroup second = MakeGroup(3);

  EXPECT_EQ(second.num_stripes(), 2);
  EXPECT_THAT(second.Run(Push), IsOk());
  EXPECT_THAT(first.Run(Push), IsOk());
}

TEST_F(StripeGroupTest, ErrorOfTheStripeThatFailedIsTheCalls) {
  FailStripe(1, {grpc::StatusCode::NOT_FOUND, "key"});

  EXPECT_THAT(MakeGroup(3).Run(Push),
              StatusIs(absl::StatusCode::kNotFound, "key"));
}

TEST_F(StripeGroupTest, AbortedThatIsNotAboutAnotherStripeIsTheCallsToo) {
  service_.status = grpc::Status(grpc::StatusCode::ABORTED, "round 7");

  EXPECT_THAT(MakeGroup(3).Run(Push),
              StatusIs(absl::StatusCode::kAborted, "round 7"));
}

TEST_F(StripeGroupTest, StripeThatFailsHereEndsTheOthers) {
  const auto exchange = [](StripeStream& stream, const Stripe& stripe) {
    if (stripe.index == 2) return absl::InternalError("malformed");
    stream.Write(Manifest(stripe), /*is_last=*/false);
    grpc::ByteBuffer reply;
    stream.Read(&reply);
    return absl::InternalError("no reply");
  };

  EXPECT_THAT(MakeGroup(3).Run(exchange),
              StatusIs(absl::StatusCode::kInternal, "malformed"));
}

TEST_F(StripeGroupTest, NoServerIsUnavailable) {
  service_.Stop();

  EXPECT_THAT(MakeGroup(3).Run(Push), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv
