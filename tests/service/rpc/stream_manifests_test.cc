#include <string>
#include <utility>
#include <variant>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/rpc/stream_request.h"
#include "tensorkv/v1/stream.pb.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace stream_manifests_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

template <typename Message>
absl::StatusOr<StreamRequest> DecodeMessage(Method method,
                                            const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer bytes(&slice, 1);
  return DecodeStreamRequest(method, MessageLimits(), &bytes);
}

absl::StatusOr<StreamRequest> DecodeManifest(v1::InitManifest manifest) {
  v1::InitChunk chunk;
  *chunk.mutable_manifest() = std::move(manifest);
  return DecodeMessage(Method::kInitStream, chunk);
}
absl::StatusOr<StreamRequest> DecodeManifest(v1::PushManifest manifest) {
  v1::PushChunk chunk;
  *chunk.mutable_manifest() = std::move(manifest);
  return DecodeMessage(chunk.manifest().has_push_pull()
                           ? Method::kPushPullStream
                           : Method::kPushStream,
                       chunk);
}
// Decodes the first message of a stream, whose manifest is given as text.
template <typename Proto>
absl::StatusOr<StreamRequest> Decode(const std::string& text) {
  Proto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return DecodeManifest(std::move(proto));
}

// --- Fields by name ---------------------------------------------------------

TEST(StreamManifestsTest, PushManifestFields) {
  ASSERT_OK_AND_ASSIGN(const StreamRequest manifest,
                       Decode<v1::PushManifest>(R"pb(
                         push {
                           step: 5
                           entries {
                             key: "w"
                             tensor {
                               dtype: DTYPE_F32
                               shape: [ 1000000, 8 ]
                             }
                           }
                           entries { key: "v" skip: true }
                         }
                         stripe { index: 1 count: 2 group: 9 })pb"));

  const auto& push = std::get<PushRequest>(manifest.request);
  EXPECT_EQ(push.step, 5);
  ASSERT_THAT(push.entries, SizeIs(2));
  EXPECT_EQ(push.entries[0].tensor.size_bytes(), 32'000'000);
  EXPECT_FALSE(push.entries[0].tensor.has_data());
  EXPECT_TRUE(push.entries[1].skip);
  EXPECT_EQ(manifest.stripe, (Stripe{1, 2, 9}));
}

TEST(StreamManifestsTest, ManifestOfRowsHasTheirIds) {
  ASSERT_OK_AND_ASSIGN(
      const StreamRequest manifest, Decode<v1::PushManifest>(R"pb(
        push_rows {
          step: 5
          entries {
            key: "w"
            update_all_rows: true
            rows { dtype: DTYPE_I32 shape: 1 data: "\007\000\000\000" }
            tensor {
              dtype: DTYPE_F32
              shape: [ 1, 8 ]
            }
          }
          entries { key: "v" skip: true }
        }
        stripe { index: 1 count: 2 group: 9 })pb"));

  const auto& push = std::get<PushRequest>(manifest.request);
  const PushEntry& entry = push.entries[0];
  EXPECT_EQ((*entry.rows)[0], 7);
  EXPECT_EQ(entry.tensor.Description(), "f32[1,8]");
  EXPECT_FALSE(entry.tensor.has_data());
  EXPECT_TRUE(entry.update_all_rows);
  EXPECT_TRUE(push.entries[1].skip);
  EXPECT_EQ(manifest.stripe, (Stripe{1, 2, 9}));
}

TEST(StreamManifestsTest, ManifestOfAPushPullSaysWhatItBringsBack) {
  ASSERT_OK_AND_ASSIGN(const StreamRequest manifest,
                       Decode<v1::PushManifest>(R"pb(
                         push_pull {
                           max_reply_bytes: 7
                           dtype: DTYPE_F16
                           push { step: 5 }
                         })pb"));

  const auto& push_pull = std::get<PushPullRequest>(manifest.request);
  EXPECT_EQ(push_pull.max_reply_bytes, 7u);
  EXPECT_EQ(push_pull.dtype, DType::kF16);
  EXPECT_EQ(push_pull.step, 5u);
}

TEST(StreamManifestsTest, ManifestOfStatesNamesThem) {
  ASSERT_OK_AND_ASSIGN(const StreamRequest manifest,
                       Decode<v1::InitManifest>(R"pb(
                         set_state {
                           entries {
                             key: "w"
                             state: "momentum"
                             tensor { dtype: DTYPE_F32 shape: 8 }
                           }
                         })pb"));

  const auto& entry = std::get<SetStateRequest>(manifest.request).entries.at(0);
  EXPECT_EQ(entry.state, "momentum");
  EXPECT_EQ(entry.tensor.Description(), "f32[8]");
  EXPECT_FALSE(entry.tensor.has_data());
}

TEST(StreamManifestsTest, AbsentStripeIsTheOnlyOne) {
  ASSERT_OK_AND_ASSIGN(const StreamRequest absent,
                       Decode<v1::PushManifest>("push {}"));
  ASSERT_OK_AND_ASSIGN(const StreamRequest empty,
                       Decode<v1::PushManifest>("push {} stripe {}"));

  EXPECT_EQ(absent.stripe, (Stripe{0, 1}));
  EXPECT_EQ(empty.stripe, (Stripe{0, 1}));
}

// --- Errors -----------------------------------------------------------------

TEST(StreamManifestsTest, DataInAManifestIsInvalid) {
  EXPECT_THAT(
      Decode<v1::PushManifest>(
          "push { entries { key: 'w' tensor { dtype: 8 data: 'A' } } }"),
      StatusIs(kInvalid,
               "entry 0 (\"w\"): tensor: expected no data in a manifest, got "
               "1 bytes"));
}

TEST(StreamManifestsTest, TensorsOfAManifestAreChecked) {
  EXPECT_THAT(Decode<v1::PushManifest>("push { entries { key: 'w' } }"),
              StatusIs(kInvalid, "entry 0 (\"w\"): tensor: missing"));
  EXPECT_THAT(Decode<v1::InitManifest>(
                  "init { entries { tensor { dtype: 8 shape: -1 } } }"),
              StatusIs(kInvalid, HasSubstr("negative dimension")));
  EXPECT_THAT(Decode<v1::InitManifest>("init { entries { tensor { dtype: 2 "
                                       "shape: 4611686018427387904 } } }"),
              StatusIs(kInvalid, HasSubstr("fewer than 2^63 bytes")));
}

TEST(StreamManifestsTest, MissingCallIsInvalid) {
  EXPECT_THAT(Decode<v1::InitManifest>(""),
              StatusIs(kInvalid, "call: missing"));
  EXPECT_THAT(Decode<v1::PushManifest>("stripe {}"),
              StatusIs(kInvalid, "call: missing"));
}

TEST(StreamManifestsTest, ImpossibleStripesAreInvalid) {
  EXPECT_THAT(Decode<v1::InitManifest>("init {} stripe { index: 1 }"),
              StatusIs(kInvalid, "stripe: expected an index below 1, got 1"));
  EXPECT_THAT(Decode<v1::PushManifest>("push {} stripe { count: 65 }"),
              StatusIs(kInvalid, HasSubstr("expected a count of 1 to 64")));
  EXPECT_THAT(Decode<v1::PushManifest>("push {} stripe { index: 4 count: 4 }"),
              StatusIs(kInvalid, HasSubstr("expected an index below 4")));
  EXPECT_THAT(Decode<v1::PushManifest>("push {} stripe { index: 1 count: 4 }"),
              StatusIs(kInvalid, HasSubstr("expected a group")));
}

}  // namespace stream_manifests_test
}  // namespace tensorkv
