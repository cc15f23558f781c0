#include "client/internal/part_sender.h"

#include <string>
#include <vector>

#include "client/internal/grpc_channel.h"
#include "client/internal/message_bytes.h"
#include "contract/stream_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_stream_service.h"
#include "tests/client/patterned_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::Payloads;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kPartBytes = 1000;

class PartSenderTest : public ::testing::Test {
 protected:
  PartSenderTest()
      : stream_(OpenBulkChannel(service_.Start(),
                                /*max_message_bytes=*/1 << 20),
                &server_, "/tensorkv.v1.TensorKV/PushStream",
                CallDeadline(absl::Seconds(30))) {}

  // Sends the bytes of `tensors` in `range`, by default all.
  absl::Status Send(const std::vector<Tensor>& tensors) {
    uint64_t total = 0;
    for (const Tensor& tensor : tensors) total += tensor.size_bytes();
    return Send(tensors, {0, total});
  }
  absl::Status Send(const std::vector<Tensor>& tensors, ByteRange range) {
    v1::PushChunk chunk;
    chunk.mutable_manifest();
    std::vector<uint64_t> sizes;
    for (const Tensor& tensor : tensors) sizes.push_back(tensor.size_bytes());
    return SendParts(
        stream_, *Serialize(chunk, 1 << 20), PartCursor(sizes, range),
        [](size_t) { return kPartBytes; },
        [&](const PartRange& part) {
          return EncodePart(part, tensors[part.entry]);
        });
  }
  // Waits until the server has read everything.
  std::vector<FakeStreamService::Stream> Received() {
    grpc::ByteBuffer reply;
    while (stream_.Read(&reply)) {
    }
    EXPECT_THAT(stream_.Finish(absl::OkStatus()), IsOk());
    return service_.streams();
  }

  FakeStreamService service_;
  ServerIncarnation server_;
  StripeStream stream_;
};

// One byte, around one part, around two, and many.
class PartSenderSizeTest : public PartSenderTest,
                           public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(, PartSenderSizeTest,
                         ::testing::Values(1, 999, 1000, 1001, 1999, 2000, 2001,
                                           123'456));

TEST_P(PartSenderSizeTest, TensorArrivesInParts) {
  const Tensor tensor = Patterned(GetParam());

  ASSERT_OK(Send({tensor}));

  const auto streams = Received();
  ASSERT_THAT(streams, SizeIs(1));
  EXPECT_THAT(streams[0].parts, SizeIs((GetParam() + 999) / 1000));
  EXPECT_EQ(
      Payloads(streams, {static_cast<uint64_t>(GetParam())}, kPartBytes)[0],
      BytesOf(tensor));
}

TEST_F(PartSenderTest, ManifestWithoutElementsIsAllThereIs) {
  ASSERT_OK(Send({Patterned(0), Patterned(0)}));

  const auto streams = Received();
  ASSERT_THAT(streams, SizeIs(1));
  EXPECT_THAT(streams[0].parts, IsEmpty());
}

TEST_F(PartSenderTest, TensorsFollowOneAnother) {
  const std::vector<Tensor> tensors = {Patterned(0, 0), Patterned(1500, 1),
                                       Patterned(0, 2), Patterned(7, 3),
                                       Patterned(1000, 4)};

  ASSERT_OK(Send(tensors));

  const auto payloads = Payloads(Received(), {0, 1500, 0, 7, 1000}, kPartBytes);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(payloads[i], BytesOf(tensors[i]));
  }
}

TEST_F(PartSenderTest, OnlyTheRangeIsSent) {
  ASSERT_OK(Send({Patterned(1500), Patterned(1500)}, {1400, 1600}));

  const auto streams = Received();
  ASSERT_THAT(streams, SizeIs(1));
  ASSERT_THAT(streams[0].parts, SizeIs(2));
  EXPECT_EQ(streams[0].parts[0].entry(), 0);
  EXPECT_EQ(streams[0].parts[0].offset(), 1400);
  EXPECT_THAT(streams[0].parts[0].data(), SizeIs(100));
  EXPECT_EQ(streams[0].parts[1].entry(), 1);
  EXPECT_EQ(streams[0].parts[1].offset(), 0);
  EXPECT_THAT(streams[0].parts[1].data(), SizeIs(100));
}

TEST_F(PartSenderTest, StreamThatEndsBeforeIsInternal) {
  service_.after_manifest = [](const v1::Stripe&) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "key");
  };
  // More than gRPC takes before it notices.
  const Tensor large = Patterned(64 << 20);

  const absl::Status sent = Send({large});

  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kInternal,
                             HasSubstr("still to be sent")));
  EXPECT_THAT(stream_.Finish(sent), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace tensorkv
