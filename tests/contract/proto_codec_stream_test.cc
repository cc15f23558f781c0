#include <string>
#include <utility>

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
                         request {
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

  EXPECT_EQ(manifest.request.step, 5);
  ASSERT_THAT(manifest.request.entries, SizeIs(2));
  EXPECT_EQ(manifest.request.entries[0].tensor.size_bytes(), 32'000'000);
  EXPECT_FALSE(manifest.request.entries[0].tensor.has_data());
  EXPECT_TRUE(manifest.request.entries[1].skip);
  EXPECT_EQ(manifest.stripe, (Stripe{1, 2, 9}));
}

TEST(StreamProtoTest, ManifestOfRowsHasTheirIds) {
  ASSERT_OK_AND_ASSIGN(
      const PushManifest manifest, Decode<v1::PushManifest>(R"pb(
        rows_request {
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

  const PushEntry& entry = manifest.request.entries[0];
  EXPECT_EQ((*entry.rows)[0], 7);
  EXPECT_EQ(entry.tensor.Description(), "f32[1,8]");
  EXPECT_FALSE(entry.tensor.has_data());
  EXPECT_TRUE(entry.update_all_rows);
  EXPECT_TRUE(manifest.request.entries[1].skip);
  EXPECT_EQ(manifest.stripe, (Stripe{1, 2, 9}));
  EXPECT_EQ(again.rows_request().entries(0).rows().data().size(), 4u);
  EXPECT_FALSE(again.has_request());
}

TEST(StreamProtoTest, PullStreamRequestFields) {
  ASSERT_OK_AND_ASSIGN(const PullStreamRequest request,
                       Decode<v1::PullStreamRequest>(R"pb(
                         request { entries { key: "w" min_version: 5 } }
                         stripe { index: 1 count: 2 group: 9 }
                         max_part_bytes: 100
                         takes_batches: true)pb"));

  EXPECT_EQ(request.request.entries[0].key, "w");
  EXPECT_EQ(request.request.entries[0].min_version, 5);
  EXPECT_EQ(request.stripe, (Stripe{1, 2, 9}));
  EXPECT_EQ(request.max_part_bytes, 100);
  EXPECT_TRUE(request.takes_batches);
}

TEST(StreamProtoTest, AbsentStripeIsTheOnlyOne) {
  ASSERT_OK_AND_ASSIGN(const PushManifest absent,
                       Decode<v1::PushManifest>("request {}"));
  ASSERT_OK_AND_ASSIGN(const PushManifest empty,
                       Decode<v1::PushManifest>("request {} stripe {}"));

  EXPECT_EQ(absent.stripe, (Stripe{0, 1}));
  EXPECT_EQ(empty.stripe, (Stripe{0, 1}));
}

// --- Without data -----------------------------------------------------------

TEST(StreamProtoTest, ManifestLeavesTheDataOut) {
  PushManifest manifest;
  manifest.request.entries.push_back(
      {.key = "w", .tensor = *Tensor::Filled(DType::kF32, {2}, 1)});
  v1::PushManifest proto;

  ToProto(manifest, &proto);

  const v1::Tensor& tensor = proto.request().entries(0).tensor();
  EXPECT_EQ(tensor.dtype(), v1::DTYPE_F32);
  EXPECT_EQ(tensor.shape_size(), 1);
  EXPECT_EQ(tensor.location_case(), v1::Tensor::LOCATION_NOT_SET);
}

// --- Errors -----------------------------------------------------------------

TEST(StreamProtoTest, DataInAManifestIsInvalid) {
  EXPECT_THAT(
      Decode<v1::PushManifest>(
          "request { entries { key: 'w' tensor { dtype: 8 data: 'A' } } }"),
      StatusIs(kInvalid,
               "entry 0 (\"w\"): tensor: expected no data in a manifest, got "
               "1 bytes"));
  EXPECT_THAT(Decode<v1::PullManifest>(
                  "values { tensor { dtype: 8 shape: 0 data: 'A' } }"),
              StatusIs(kInvalid, HasSubstr("expected no data")));
}

TEST(StreamProtoTest, TensorsOfAManifestAreChecked) {
  EXPECT_THAT(Decode<v1::PushManifest>("request { entries { key: 'w' } }"),
              StatusIs(kInvalid, "entry 0 (\"w\"): tensor: missing"));
  EXPECT_THAT(Decode<v1::InitManifest>(
                  "request { entries { tensor { dtype: 8 shape: -1 } } }"),
              StatusIs(kInvalid, HasSubstr("negative dimension")));
  EXPECT_THAT(Decode<v1::InitManifest>("request { entries { tensor { dtype: 2 "
                                       "shape: 4611686018427387904 } } }"),
              StatusIs(kInvalid, HasSubstr("fewer than 2^63 bytes")));
}

TEST(StreamProtoTest, MissingRequestIsInvalid) {
  EXPECT_THAT(Decode<v1::InitManifest>(""),
              StatusIs(kInvalid, "request: missing"));
  EXPECT_THAT(Decode<v1::PushManifest>("stripe {}"),
              StatusIs(kInvalid, "request: missing"));
  EXPECT_THAT(Decode<v1::PullStreamRequest>(""),
              StatusIs(kInvalid, "request: missing"));
}

TEST(StreamProtoTest, ImpossibleStripesAreInvalid) {
  EXPECT_THAT(Decode<v1::InitManifest>("request {} stripe { index: 1 }"),
              StatusIs(kInvalid, "stripe: expected an index below 1, got 1"));
  EXPECT_THAT(Decode<v1::PushManifest>("request {} stripe { count: 65 }"),
              StatusIs(kInvalid, HasSubstr("expected a count of 1 to 64")));
  EXPECT_THAT(
      Decode<v1::PullStreamRequest>("request {} stripe { index: 4 count: 4 }"),
      StatusIs(kInvalid, HasSubstr("expected an index below 4")));
  EXPECT_THAT(
      Decode<v1::PullStreamRequest>("request {} stripe { index: 1 count: 4 }"),
      StatusIs(kInvalid, HasSubstr("expected a group")));
}

}  // namespace proto_codec_stream_test
}  // namespace tensorkv
