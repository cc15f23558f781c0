#include "client/internal/transfer/stripe_stream.h"

#include <memory>
#include <optional>

#include "client/internal/transfer/grpc_channel.h"
#include "client/internal/transfer/message_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_stream_service.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace stripe_stream_test {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::StatusIs;

constexpr char kPushStream[] = "/tensorkv.v1.Data/PushStream";
constexpr char kPushPullStream[] = "/tensorkv.v1.Data/PushPullStream";

grpc::ByteBuffer Bytes(const google::protobuf::Message& message) {
  return *Serialize(message, 1 << 20);
}

grpc::ByteBuffer Manifest() {
  v1::PushChunk chunk;
  chunk.mutable_manifest();
  return Bytes(chunk);
}

grpc::ByteBuffer PartOf(size_t size) {
  v1::PushChunk chunk;
  chunk.mutable_part()->set_data(std::string(size, 'x'));
  return Bytes(chunk);
}

class StripeStreamTest : public ::testing::Test {
 protected:
  StripeStreamTest()
      : channel_(OpenBulkChannel(service_.Start(), /*max_message_bytes=*/
                                 1 << 20)) {}

  StripeStream& Open(const char* method,
                     absl::Duration timeout = absl::Seconds(30)) {
    return stream_.emplace(channel_, &server_, method, CallDeadline(timeout));
  }

  FakeStreamService service_;
  std::shared_ptr<grpc::Channel> channel_;
  ServerIncarnation server_;
  std::optional<StripeStream> stream_;
  grpc::ByteBuffer reply_;
};

TEST_F(StripeStreamTest, ErrorWhileWritingIsTheServers) {
  service_.after_manifest = [](const v1::Stripe&) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "key");
  };
  StripeStream& stream = Open(kPushStream);

  const grpc::ByteBuffer part = PartOf(1 << 19);
  while (stream.Write(part, /*is_last=*/false)) {
  }

  EXPECT_THAT(stream.Finish(absl::InternalError("cut off")),
              StatusIs(absl::StatusCode::kNotFound, "key"));
}

TEST_F(StripeStreamTest, StreamIsGivenUpWhereItsMessagesAreWrong) {
  service_.values = {{1, *Tensor::Filled(DType::kU8, Shape({1 << 20}), 1)}};
  service_.part_bytes = 1 << 10;
  StripeStream& stream = Open(kPushPullStream);

  stream.Write(Manifest(), /*is_last=*/true);
  EXPECT_TRUE(stream.Read(&reply_));

  EXPECT_THAT(stream.Finish(absl::InternalError("malformed")),
              StatusIs(absl::StatusCode::kInternal, "malformed"));
}

TEST_F(StripeStreamTest, StreamThatNeverBeganIsFinishedAtOnce) {
  EXPECT_THAT(Open(kPushStream).Finish(absl::InternalError("before")),
              StatusIs(absl::StatusCode::kInternal, "before"));
}

TEST_F(StripeStreamTest, CancelEndsARead) {
  Notification go_on;
  service_.after_upload = [&](const v1::Stripe&) {
    go_on.WaitForNotification();
  };
  StripeStream& stream = Open(kPushStream);
  Background background([&] {
    stream.Write(Manifest(), /*is_last=*/true);
    stream.Read(&reply_);
    return stream.Finish(absl::InternalError("no reply"));
  });

  stream.Cancel();

  EXPECT_THAT(background.Result(), StatusIs(absl::StatusCode::kCancelled));
  go_on.Notify();
  service_.Stop();
}

TEST_F(StripeStreamTest, CancelBeforeTheFirstMessageCounts) {
  StripeStream& stream = Open(kPushStream, absl::InfiniteDuration());

  stream.Cancel();
  stream.Write(Manifest(), /*is_last=*/false);

  EXPECT_FALSE(stream.Read(&reply_));
  EXPECT_THAT(stream.Finish(absl::InternalError("no reply")),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(StripeStreamTest, OutcomeIsCancelledOnceTheCallerHasGivenUp) {
  const auto canceller = std::make_shared<Canceller>();
  StripeStream& stream =
      stream_.emplace(channel_, &server_, kPushStream,
                      CallDeadline(absl::Seconds(30), canceller));
  stream.Write(Manifest(), /*is_last=*/true);
  while (stream.Read(&reply_)) {
  }

  canceller->Cancel();

  EXPECT_THAT(stream.Finish(absl::InternalError("too few")),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(StripeStreamTest, DestructionEndsTheStream) {
  Open(kPushStream).Write(Manifest(), /*is_last=*/false);

  stream_.reset();
}

}  // namespace stripe_stream_test
}  // namespace tensorkv
