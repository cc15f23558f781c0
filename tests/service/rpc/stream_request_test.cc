#include "service/rpc/stream_request.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/stream.pb.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace stream_request_test {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr MessageLimits kLimits = {.max_message_bytes = 4096, .max_entries = 3};

template <typename Message>
absl::StatusOr<StreamRequest> Decoded(Method method, const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer bytes(&slice, 1);
  return DecodeStreamRequest(method, kLimits, &bytes);
}

v1::PushChunk Manifest() {
  v1::PushChunk chunk;
  v1::PushRequest& request = *chunk.mutable_manifest()->mutable_push();
  request.set_namespace_("n");
  v1::PushEntry& entry = *request.add_entries();
  entry.set_key("k");
  entry.mutable_tensor()->set_dtype(v1::DTYPE_F32);
  entry.mutable_tensor()->add_shape(3);
  return chunk;
}

v1::PushChunk StripedManifest() {
  v1::PushChunk chunk = Manifest();
  chunk.mutable_manifest()->mutable_stripe()->set_index(1);
  chunk.mutable_manifest()->mutable_stripe()->set_count(2);
  chunk.mutable_manifest()->mutable_stripe()->set_group(5);
  return chunk;
}

TEST(DecodeStreamRequestTest, GivesThePushWithoutData) {
  ASSERT_OK_AND_ASSIGN(StreamRequest stream,
                       Decoded(Method::kPushStream, Manifest()));

  const auto& push = std::get<PushRequest>(stream.request);
  EXPECT_EQ(push.name_space, "n");
  EXPECT_EQ(push.entries[0].tensor.Description(), "f32[3]");
  EXPECT_FALSE(push.entries[0].tensor.has_data());
  EXPECT_EQ(stream.stripe, (Stripe{0, 1}));
  EXPECT_EQ(TensorsOf(stream.request).size(), 1u);
}

TEST(DecodeStreamRequestTest, StripeNamesItsGroup) {
  ASSERT_OK_AND_ASSIGN(const StreamRequest stream,
                       Decoded(Method::kPushStream, StripedManifest()));

  EXPECT_EQ(stream.stripe, (Stripe{1, 2, 5}));
  EXPECT_FALSE(stream.manifest.empty());
}

TEST(DecodeStreamRequestTest, StripesMayHaveTheirMapsInAnyOrder) {
  v1::PushChunk chunk = StripedManifest();
  auto& metadata = *chunk.mutable_manifest()
                        ->mutable_push()
                        ->mutable_publish_as()
                        ->mutable_metadata();
  for (const char* const name : {"a", "b", "c"}) metadata[name] = "x";
  ASSERT_OK_AND_ASSIGN(const StreamRequest stream,
                       Decoded(Method::kPushStream, chunk));

  // Each time that they are read, they are in some other order.
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK_AND_ASSIGN(const StreamRequest other,
                         Decoded(Method::kPushStream, chunk));
    EXPECT_EQ(stream.manifest, other.manifest);
  }
}

v1::PushChunk ManifestOfRows(char id) {
  v1::PushChunk chunk = StripedManifest();
  v1::PushRowsEntry entry;
  entry.set_key("k");
  *entry.mutable_tensor() = chunk.manifest().push().entries(0).tensor();
  entry.mutable_rows()->set_dtype(v1::DTYPE_I32);
  entry.mutable_rows()->add_shape(1);
  entry.mutable_rows()->set_data(std::string({id, 0, 0, 0}));
  *chunk.mutable_manifest()->mutable_push_rows()->add_entries() = entry;
  return chunk;
}

TEST(DecodeStreamRequestTest, IdsOfRowsAreWhatStripesHaveInCommon) {
  ASSERT_OK_AND_ASSIGN(const StreamRequest stream,
                       Decoded(Method::kPushStream, ManifestOfRows(5)));
  ASSERT_OK_AND_ASSIGN(const StreamRequest same,
                       Decoded(Method::kPushStream, ManifestOfRows(5)));
  ASSERT_OK_AND_ASSIGN(const StreamRequest other,
                       Decoded(Method::kPushStream, ManifestOfRows(6)));

  EXPECT_EQ((*std::get<PushRequest>(stream.request).entries[0].rows)[0], 5);
  EXPECT_EQ(stream.manifest, same.manifest);
  EXPECT_NE(stream.manifest, other.manifest);
}

TEST(DecodeStreamRequestTest, WhichCallItIsIsWhatStripesHaveInCommon) {
  v1::PushChunk push = StripedManifest();
  push.mutable_manifest()->mutable_push()->clear_entries();
  v1::PushChunk rows = push;
  rows.mutable_manifest()->mutable_push_rows()->set_namespace_("n");

  EXPECT_NE(Decoded(Method::kPushStream, push)->manifest,
            Decoded(Method::kPushStream, rows)->manifest);
}

TEST(DecodeStreamRequestTest, PushPullIsOfItsOwnStream) {
  v1::PushChunk push_pull;
  push_pull.mutable_manifest()->mutable_push_pull()->set_dtype(v1::DTYPE_F16);
  push_pull.mutable_manifest()->mutable_push_pull()->mutable_push();

  ASSERT_OK_AND_ASSIGN(const StreamRequest stream,
                       Decoded(Method::kPushPullStream, push_pull));
  EXPECT_EQ(std::get<PushPullRequest>(stream.request).dtype, DType::kF16);
  EXPECT_THAT(Decoded(Method::kPushStream, push_pull),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("got a push_pull")));
  for (const v1::PushChunk& other : {Manifest(), ManifestOfRows(5)}) {
    EXPECT_THAT(Decoded(Method::kPushPullStream, other),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expected a push_pull")));
  }
}

TEST(DecodeStreamRequestTest, InitStreamMayCarryStates) {
  v1::InitChunk chunk;
  v1::SetStateEntry& entry =
      *chunk.mutable_manifest()->mutable_set_state()->add_entries();
  entry.set_state("momentum");
  entry.mutable_tensor()->set_dtype(v1::DTYPE_F32);
  entry.mutable_tensor()->add_shape(3);

  ASSERT_OK_AND_ASSIGN(StreamRequest stream,
                       Decoded(Method::kInitStream, chunk));

  EXPECT_EQ(std::get<SetStateRequest>(stream.request).entries[0].state,
            "momentum");
  EXPECT_EQ(TensorsOf(stream.request).size(), 1u);
}

TEST(DecodeStreamRequestTest, PartInPlaceOfTheManifestIsInvalid) {
  v1::InitChunk chunk;
  chunk.mutable_part()->set_data("x");

  EXPECT_THAT(Decoded(Method::kInitStream, chunk),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected a manifest")));
}

TEST(DecodeStreamRequestTest, TooManyEntriesAreRefused) {
  v1::PushChunk chunk = Manifest();
  for (int i = 0; i < 4; ++i) {
    chunk.mutable_manifest()->mutable_push()->add_entries()->set_skip(true);
  }

  EXPECT_THAT(Decoded(Method::kPushStream, chunk),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

absl::StatusOr<TicketRequest> DecodedTicket(
    const v1::PullStreamRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  grpc::ByteBuffer bytes(&slice, 1);
  return DecodeTicketRequest(kLimits, &bytes);
}

TEST(DecodeTicketRequestTest, GivesTheTicketAndTheStripe) {
  v1::PullStreamRequest request;
  request.set_ticket("t");
  request.set_max_part_bytes(77);
  ASSERT_OK_AND_ASSIGN(const TicketRequest only, DecodedTicket(request));
  request.mutable_stripe()->set_index(1);
  request.mutable_stripe()->set_count(2);
  ASSERT_OK_AND_ASSIGN(const TicketRequest one, DecodedTicket(request));

  EXPECT_EQ(only.ticket, "t");
  EXPECT_EQ(only.max_part_bytes, 77u);
  EXPECT_EQ(only.stripe, (Stripe{0, 1}));
  EXPECT_EQ(one.stripe, (Stripe{1, 2}));
}

TEST(DecodeTicketRequestTest, ImpossibleStripesAreInvalid) {
  v1::PullStreamRequest request;
  for (const uint32_t count : {1u, 65u}) {
    request.mutable_stripe()->set_index(1);
    request.mutable_stripe()->set_count(count);
    EXPECT_THAT(DecodedTicket(request),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace stream_request_test
}  // namespace tensorkv
