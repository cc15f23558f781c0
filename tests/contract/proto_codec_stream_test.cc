#include <string>
#include <utility>
#include <variant>

#include "contract/proto_codec.h"
#include "google/protobuf/text_format.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace proto_codec_stream_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

template <typename Proto>
auto Decode(const std::string& text) {
  Proto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return FromProto(std::move(proto));
}

// --- Fields by name ---------------------------------------------------------

TEST(StreamProtoTest, PushManifestFields) {
  ASSERT_OK_AND_ASSIGN(const PushManifest manifest,
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

TEST(StreamProtoTest, ManifestOfRowsHasTheirIds) {
  ASSERT_OK_AND_ASSIGN(
      const PushManifest manifest, Decode<v1::PushManifest>(R"pb(
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
  v1::PushManifest again;
  ToProto(manifest, &again);

  const auto& push = std::get<PushRequest>(manifest.request);
  const PushEntry& entry = push.entries[0];
  EXPECT_EQ((*entry.rows)[0], 7);
  EXPECT_EQ(entry.tensor.Description(), "f32[1,8]");
  EXPECT_FALSE(entry.tensor.has_data());
  EXPECT_TRUE(entry.update_all_rows);
  EXPECT_TRUE(push.entries[1].skip);
  EXPECT_EQ(manifest.stripe, (Stripe{1, 2, 9}));
  EXPECT_EQ(again.push_rows().entries(0).rows().data().size(), 4u);
  EXPECT_FALSE(again.has_push());
}

TEST(StreamProtoTest, ManifestOfAPushPullSaysWhatItBringsBack) {
  ASSERT_OK_AND_ASSIGN(const PushManifest manifest,
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

TEST(StreamProtoTest, ManifestOfStatesNamesThem) {
  ASSERT_OK_AND_ASSIGN(const InitManifest manifest,
                       Decode<v1::InitManifest>(R"pb(
                         set_state {
                           entries {
                             key: "w"
                             state: "momentum"
                             tensor { dtype: DTYPE_F32 shape: 8 }
                           }
                         })pb"));
  ASSERT_OK_AND_ASSIGN(
      const PullStreamRequest pull,
      Decode<v1::PullStreamRequest>(
          "get_state { entries { key: 'w' state: 'momentum' } }"));

  const auto& entry = std::get<SetStateRequest>(manifest.request).entries.at(0);
  EXPECT_EQ(entry.state, "momentum");
  EXPECT_EQ(entry.tensor.Description(), "f32[8]");
  EXPECT_FALSE(entry.tensor.has_data());
  EXPECT_EQ(std::get<GetStateRequest>(pull.request).entries.at(0).state,
            "momentum");
}

TEST(StreamProtoTest, PullStreamRequestFields) {
  ASSERT_OK_AND_ASSIGN(const PullStreamRequest request,
                       Decode<v1::PullStreamRequest>(R"pb(
                         pull { entries { key: "w" min_version: 5 } }
                         stripe { index: 1 count: 2 group: 9 }
                         max_part_bytes: 100
                         allow_batches: true)pb"));

  const auto& pull = std::get<PullRequest>(request.request);
  EXPECT_EQ(pull.entries[0].key, "w");
  EXPECT_EQ(pull.entries[0].min_version, 5);
  EXPECT_EQ(request.stripe, (Stripe{1, 2, 9}));
  EXPECT_EQ(request.max_part_bytes, 100);
  EXPECT_TRUE(request.allow_batches);
}

TEST(StreamProtoTest, AbsentStripeIsTheOnlyOne) {
  ASSERT_OK_AND_ASSIGN(const PushManifest absent,
                       Decode<v1::PushManifest>("push {}"));
  ASSERT_OK_AND_ASSIGN(const PushManifest empty,
                       Decode<v1::PushManifest>("push {} stripe {}"));

  EXPECT_EQ(absent.stripe, (Stripe{0, 1}));
  EXPECT_EQ(empty.stripe, (Stripe{0, 1}));
}

// --- Without data -----------------------------------------------------------

TEST(StreamProtoTest, ManifestLeavesTheDataOut) {
  PushRequest push;
  push.entries.push_back(
      {.key = "w", .tensor = *Tensor::Filled(DType::kF32, {2}, 1)});
  v1::PushManifest proto;

  ToProto(PushManifest{.request = push}, &proto);

  const v1::Tensor& tensor = proto.push().entries(0).tensor();
  EXPECT_EQ(tensor.dtype(), v1::DTYPE_F32);
  EXPECT_EQ(tensor.shape_size(), 1);
  EXPECT_EQ(tensor.location_case(), v1::Tensor::LOCATION_NOT_SET);
}

// --- Errors -----------------------------------------------------------------

TEST(StreamProtoTest, DataInAManifestIsInvalid) {
  EXPECT_THAT(
      Decode<v1::PushManifest>(
          "push { entries { key: 'w' tensor { dtype: 8 data: 'A' } } }"),
      StatusIs(kInvalid,
               "entry 0 (\"w\"): tensor: expected no data in a manifest, got "
               "1 bytes"));
  EXPECT_THAT(Decode<v1::PullManifest>(
                  "values { tensor { dtype: 8 shape: 0 data: 'A' } }"),
              StatusIs(kInvalid, HasSubstr("expected no data")));
}

TEST(StreamProtoTest, TensorsOfAManifestAreChecked) {
  EXPECT_THAT(Decode<v1::PushManifest>("push { entries { key: 'w' } }"),
              StatusIs(kInvalid, "entry 0 (\"w\"): tensor: missing"));
  EXPECT_THAT(Decode<v1::InitManifest>(
                  "init { entries { tensor { dtype: 8 shape: -1 } } }"),
              StatusIs(kInvalid, HasSubstr("negative dimension")));
  EXPECT_THAT(Decode<v1::InitManifest>("init { entries { tensor { dtype: 2 "
                                       "shape: 4611686018427387904 } } }"),
              StatusIs(kInvalid, HasSubstr("fewer than 2^63 bytes")));
}

TEST(StreamProtoTest, MissingCallIsInvalid) {
  EXPECT_THAT(Decode<v1::InitManifest>(""),
              StatusIs(kInvalid, "call: missing"));
  EXPECT_THAT(Decode<v1::PushManifest>("stripe {}"),
              StatusIs(kInvalid, "call: missing"));
  EXPECT_THAT(Decode<v1::PullStreamRequest>(""),
              StatusIs(kInvalid, "call: missing"));
}

TEST(StreamProtoTest, ImpossibleStripesAreInvalid) {
  EXPECT_THAT(Decode<v1::InitManifest>("init {} stripe { index: 1 }"),
              StatusIs(kInvalid, "stripe: expected an index below 1, got 1"));
  EXPECT_THAT(Decode<v1::PushManifest>("push {} stripe { count: 65 }"),
              StatusIs(kInvalid, HasSubstr("expected a count of 1 to 64")));
  EXPECT_THAT(
      Decode<v1::PullStreamRequest>("pull {} stripe { index: 4 count: 4 }"),
      StatusIs(kInvalid, HasSubstr("expected an index below 4")));
  EXPECT_THAT(
      Decode<v1::PullStreamRequest>("pull {} stripe { index: 1 count: 4 }"),
      StatusIs(kInvalid, HasSubstr("expected a group")));
}

}  // namespace proto_codec_stream_test
}  // namespace tensorkv
