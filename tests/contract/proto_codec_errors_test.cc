#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/payload_reader.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "tests/contract/codec_comparison.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace proto_codec_errors_test {

using ::testing::HasSubstr;
using testing::MessageKind;
using testing::StatusIs;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

// Has the call that each message carries.
template <typename Proto>
struct CallOf;
template <>
struct CallOf<v1::InitRequest> {
  using Type = InitRequest;
  static constexpr MessageKind kKind = MessageKind::kInit;
};
template <>
struct CallOf<v1::PushRequest> {
  using Type = PushRequest;
  static constexpr MessageKind kKind = MessageKind::kPush;
};
template <>
struct CallOf<v1::PushPullRequest> {
  using Type = PushPullRequest;
  static constexpr MessageKind kKind = MessageKind::kPushPull;
};
template <>
struct CallOf<v1::PushRowsRequest> {
  using Type = PushRowsRequest;
  static constexpr MessageKind kKind = MessageKind::kPushRows;
};
template <>
struct CallOf<v1::PullRequest> {
  using Type = PullRequest;
  static constexpr MessageKind kKind = MessageKind::kPull;
};
template <>
struct CallOf<v1::PullRowsRequest> {
  using Type = PullRowsRequest;
  static constexpr MessageKind kKind = MessageKind::kPullRows;
};
template <>
struct CallOf<v1::SetStateRequest> {
  using Type = SetStateRequest;
  static constexpr MessageKind kKind = MessageKind::kSetState;
};
template <>
struct CallOf<v1::GetStateRequest> {
  using Type = GetStateRequest;
  static constexpr MessageKind kKind = MessageKind::kGetState;
};
template <>
struct CallOf<v1::PullResponse> {
  using Type = PullReply;
  static constexpr MessageKind kKind = MessageKind::kPullReply;
};

// Returns the status of reading a message that the generated code wrote.
template <typename Proto>
absl::Status StatusOf(const Proto& proto) {
  const std::string bytes = proto.SerializeAsString();
  EXPECT_EQ(
      testing::CompareCodecs(CallOf<Proto>::kKind, bytes, 64).disagreement, "");
  google::protobuf::io::ArrayInputStream in(bytes.data(),
                                            static_cast<int>(bytes.size()));
  return ReadCall<typename CallOf<Proto>::Type>(&in, bytes.size(), UINT32_MAX)
      .status();
}

// Returns the status of reading a message given as text.
template <typename Proto>
absl::Status Decode(const std::string& text) {
  Proto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return StatusOf(proto);
}

// Returns the status of reading a push with a tensor given as text.
absl::Status DecodeTensor(const std::string& text) {
  v1::PushRequest push;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text, push.add_entries()->mutable_tensor()));
  return StatusOf(push);
}

struct Malformed {
  std::string name;
  std::function<absl::Status(const std::string&)> decode;
  std::string text;
  absl::StatusCode code;
  std::string message;
};

class MalformedTest : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedTest, GetsItsCodeAndMessage) {
  EXPECT_THAT(GetParam().decode(GetParam().text),
              StatusIs(GetParam().code, HasSubstr(GetParam().message)));
}

std::string NameOfTest(const ::testing::TestParamInfo<Malformed>& info) {
  return info.param.name;
}

constexpr auto kTensor = DecodeTensor;

INSTANTIATE_TEST_SUITE_P(
    Tensor, MalformedTest,
    ::testing::ValuesIn(std::vector<Malformed>{
        Malformed{"DTypeUnspecified", kTensor, "data: 'ABCD'", kInvalid,
                  "dtype: expected a number from 1 to 15, got 0"},
        Malformed{"DTypeUnknown", kTensor, "dtype: 99 data: 'ABCD'", kInvalid,
                  "got 99"},
        Malformed{"DTypeNegative", kTensor, "dtype: -1", kInvalid, "got -1"},
        Malformed{"RankNine", kTensor,
                  "dtype: DTYPE_U8 shape: [1,1,1,1,1,1,1,1,1] data: 'A'",
                  kInvalid, "expected a rank of at most 8, got 9"},
        Malformed{"NegativeDimension", kTensor,
                  "dtype: DTYPE_U8 shape: [2, -1]", kInvalid, "got [2,-1]"},
        Malformed{"OverflowingProduct", kTensor,
                  "dtype: DTYPE_U8 shape: [4294967296, 4294967296]", kInvalid,
                  "expected fewer than 2^63 elements"},
        Malformed{"OverflowingSize", kTensor,
                  "dtype: DTYPE_F64 shape: 4611686018427387904", kInvalid,
                  "expected fewer than 2^63 bytes"},
        Malformed{"DataTooShort", kTensor,
                  "dtype: DTYPE_F32 shape: [2, 3] data: '0123456789ABCDEF0123'",
                  kInvalid, "expected 24 bytes for f32[2,3], got 20"},
        Malformed{"DataTooLong", kTensor, "dtype: DTYPE_U8 data: 'AB'",
                  kInvalid, "expected 1 bytes for u8[], got 2"},
        Malformed{"DataForNoElements", kTensor,
                  "dtype: DTYPE_U8 shape: 0 data: 'A'", kInvalid,
                  "expected 0 bytes for u8[0], got 1"},
        Malformed{"NoLocation", kTensor, "dtype: DTYPE_U8 shape: 3", kInvalid,
                  "expected 3 bytes for u8[3], got 0"}}),
    NameOfTest);

INSTANTIATE_TEST_SUITE_P(
    Entries, MalformedTest,
    ::testing::ValuesIn(std::vector<Malformed>{
        Malformed{"InitWithoutTensor", Decode<v1::InitRequest>,
                  "entries { key: 'fc1.w' }", kInvalid,
                  "entry 0 (\"fc1.w\"): tensor: missing"},
        Malformed{"InitOnExistingUnknown", Decode<v1::InitRequest>,
                  "on_existing: 9", kInvalid, "on_existing: unknown number 9"},
        Malformed{"InitSecondEntry", Decode<v1::InitRequest>,
                  "entries { key: 'a' tensor { dtype: DTYPE_U8 data: 'A' } }"
                  "entries { key: 'b' tensor { dtype: DTYPE_U8 } }",
                  kInvalid,
                  "entry 1 (\"b\"): tensor: expected 1 bytes for u8[], got 0"},
        Malformed{"PushWithoutTensor", Decode<v1::PushRequest>,
                  "entries { key: 'w' }", kInvalid,
                  "entry 0 (\"w\"): tensor: missing"},
        Malformed{"PushSkipWithTensor", Decode<v1::PushRequest>,
                  "entries { key: 'w' skip: true tensor {} }", kInvalid,
                  "entry 0 (\"w\"): tensor: expected none with skip"},
        Malformed{"PushPullWithoutPush", Decode<v1::PushPullRequest>, "",
                  kInvalid, "push: missing"},
        Malformed{"PushPullEntry", Decode<v1::PushPullRequest>,
                  "push { entries { key: 'w' } }", kInvalid,
                  "entry 0 (\"w\"): tensor: missing"},
        Malformed{"SetStateWithoutTensor", Decode<v1::SetStateRequest>,
                  "entries { key: 'w' state: 'momentum' }", kInvalid,
                  "entry 0 (\"w\"): tensor: missing"},
        Malformed{"GetStateWorkerWithoutRank", Decode<v1::GetStateRequest>,
                  "worker {}", kInvalid, "worker.rank: missing"},
        Malformed{"PushRowsWithoutIds", Decode<v1::PushRowsRequest>,
                  "entries { key: 'w' tensor {} }", kInvalid,
                  "entry 0 (\"w\"): rows: missing"},
        Malformed{"PushRowsWithoutTensor", Decode<v1::PushRowsRequest>,
                  "entries { key: 'w' rows { dtype: DTYPE_I64 shape: 0 } }",
                  kInvalid, "entry 0 (\"w\"): tensor: missing"},
        Malformed{"PushRowsSkipWithIds", Decode<v1::PushRowsRequest>,
                  "entries { key: 'w' skip: true rows {} }", kInvalid,
                  "entry 0 (\"w\"): rows: expected none with skip"},
        Malformed{"PullRowsWithoutIds", Decode<v1::PullRowsRequest>,
                  "entries { key: 'w' }", kInvalid,
                  "entry 0 (\"w\"): rows: missing"},
        Malformed{"IdsOfAnotherDType", Decode<v1::PullRowsRequest>,
                  "entries { key: 'w' rows { dtype: DTYPE_F32 shape: 0 } }",
                  kInvalid, "rows: expected i32 or i64 of rank 1, got f32[0]"},
        Malformed{"IdsOfAnotherRank", Decode<v1::PullRowsRequest>,
                  "entries { key: 'w' rows { dtype: DTYPE_I64 shape: [0, 2] } "
                  "}",
                  kInvalid,
                  "rows: expected i32 or i64 of rank 1, got i64[0,2]"},
        Malformed{"IdsCutShort", Decode<v1::PullRowsRequest>,
                  "entries { key: 'w' rows { dtype: DTYPE_I32 shape: 2 data: "
                  "'ABCD' } }",
                  kInvalid, "rows: tensor: expected 8 bytes for i32[2], got 4"},
        Malformed{"PullReplyWithoutTensor", Decode<v1::PullResponse>,
                  "values { version: 1 }", kInvalid,
                  "entry 0: tensor: missing"},
        Malformed{"PushWorkerWithoutRank", Decode<v1::PushRequest>,
                  "worker { epoch: 5 }", kInvalid, "worker.rank: missing"},
        Malformed{"PullWorkerWithoutRank", Decode<v1::PullRequest>, "worker {}",
                  kInvalid, "worker.rank: missing"}}),
    NameOfTest);

// A push of 8 f32, encoded like that, with that payload.
absl::Status DecodeEncoded(const std::string& encoding_and_data) {
  const size_t space = encoding_and_data.find('|');
  return Decode<v1::PushRequest>(absl::StrCat(
      "entries { key: 'w' encoding {", encoding_and_data.substr(0, space),
      "} tensor { dtype: DTYPE_F32 shape: 8 data: '",
      encoding_and_data.substr(space + 1), "' } }"));
}

TEST(ProtoCodecErrorsTest, EncodedPushIsTaken) {
  EXPECT_OK(DecodeEncoded("two_bit { threshold: 0.5 }|AB"));
}

INSTANTIATE_TEST_SUITE_P(
    Encodings, MalformedTest,
    ::testing::ValuesIn(std::vector<Malformed>{
        Malformed{"None", DecodeEncoded, "|AB", kUnimplemented,
                  "entry 0 (\"w\"): encoding: none that this server knows"},
        Malformed{"Length", DecodeEncoded, "two_bit { threshold: 1 }|A",
                  kInvalid, "payload: expected 2 bytes for an encoded f32[8]"},
        Malformed{"NoPayload", DecodeEncoded, "one_bit { scale: 1 }|", kInvalid,
                  "payload: expected 1 bytes"},
        Malformed{"ZeroThreshold", DecodeEncoded, "two_bit {}|AB", kInvalid,
                  "threshold: expected a positive number, got 0"},
        Malformed{"InfiniteScale", DecodeEncoded, "one_bit { scale: inf }|A",
                  kInvalid, "scale: expected a positive number, got inf"},
        Malformed{"NegativeScale", DecodeEncoded, "one_bit { scale: -1 }|A",
                  kInvalid, "got -1"},
        Malformed{"NormNaN", DecodeEncoded,
                  "dithering { bits: 2 norm: nan }|AB", kInvalid,
                  "norm: expected a positive number, got nan"},
        Malformed{"Bits", DecodeEncoded, "dithering { bits: 3 norm: 1 }|AB",
                  kInvalid, "bits: expected 2, 4 or 8, got 3"},
        Malformed{"BitsOf258", DecodeEncoded,
                  "dithering { bits: 258 norm: 1 }|AB", kInvalid, "bits:"},
        Malformed{"Count", DecodeEncoded, "top_k { count: 9 }|AB", kInvalid,
                  "count: expected at most 8, got 9"},
        Malformed{"RandomKBlock", DecodeEncoded, "random_k {}|AB", kInvalid,
                  "block_size: expected at least 1, got 0"},
        Malformed{"Block", DecodeEncoded, "blocks { element: DTYPE_I8 }|AB",
                  kInvalid, "block_size: expected at least 1, got 0"},
        Malformed{"Element", DecodeEncoded,
                  "blocks { element: DTYPE_F16 block_size: 8 }|AB", kInvalid,
                  "element: expected i8, f8e4m3fn or f8e5m2"},
        Malformed{"DType", Decode<v1::PushRequest>,
                  "entries { key: 'w' encoding { two_bit { threshold: 1 } }"
                  " tensor { dtype: DTYPE_F16 shape: 4 data: 'A' } }",
                  kInvalid, "dtype of the tensor: expected f32, got f16"},
        Malformed{"Skip", Decode<v1::PushRequest>,
                  "entries { key: 'w' skip: true encoding {} }", kInvalid,
                  "tensor: expected none with skip"},
        Malformed{"DTypeOfValues", Decode<v1::PushRequest>,
                  "entries { key: 'w' encoding { top_k { count: 1 } }"
                  " tensor { dtype: DTYPE_I8 shape: 4 data: 'A' } }",
                  kInvalid, "dtype of the tensor: expected a float, got i8"}}),
    NameOfTest);

TEST(ProtoCodecErrorsTest, EncodingsHaveReasons) {
  EXPECT_THAT(DecodeEncoded("|AB"),
              testing::HasReason(Reason::kEncodingUnknown));
  EXPECT_THAT(DecodeEncoded("two_bit { threshold: 1 }|A"),
              testing::HasReason(Reason::kEncodingMalformed));
  EXPECT_THAT(DecodeEncoded("two_bit {}|AB"),
              testing::HasReason(Reason::kEncodingMalformed));
}

// The status of reading a configuration of a request.
absl::Status DecodeConfig(const std::string& text) {
  v1::NamespaceConfig proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return KnownConfig(proto).status();
}

TEST(ProtoCodecErrorsTest, OnExistingUnknown) {
  EXPECT_THAT(DecodeOnExisting(static_cast<v1::OnExisting>(-1)),
              StatusIs(kInvalid, "on_existing: unknown number -1"));
}

INSTANTIATE_TEST_SUITE_P(
    Namespaces, MalformedTest,
    ::testing::ValuesIn(std::vector<Malformed>{
        Malformed{"ModeUnknown", DecodeConfig, "mode: 9", kInvalid,
                  "mode: unknown number 9"},
        Malformed{"OnWorkerLossUnknown", DecodeConfig, "on_worker_loss: 9",
                  kInvalid, "on_worker_loss: unknown number 9"},
        Malformed{"OnNonFiniteUnknown", DecodeConfig,
                  "gradient_guard { on_non_finite: 9 }", kInvalid,
                  "on_non_finite: unknown number 9"},
        Malformed{"OnLargeNormUnknown", DecodeConfig,
                  "gradient_guard { on_large_norm: 9 }", kInvalid,
                  "on_large_norm: unknown number 9"},
        Malformed{"AggregationUnknown", DecodeConfig, "aggregation: 9",
                  kInvalid, "aggregation: unknown number 9"},
        Malformed{"QuorumGrace", DecodeConfig,
                  "quorum_grace { seconds: 1 nanos: -1 }", kInvalid,
                  "quorum_grace: expected a duration"}}),
    NameOfTest);

TEST(MessageTest, LongKeysAreCut) {
  const absl::Status status = Decode<v1::InitRequest>(
      "entries { key: '" + std::string(100'000, 'k') + "' }");

  EXPECT_THAT(status, StatusIs(kInvalid, HasSubstr("kkk...\"): tensor")));
  EXPECT_LT(status.message().size(), 300);
}

TEST(MessageTest, ControlCharactersOfKeysAreEscaped) {
  EXPECT_THAT(Decode<v1::InitRequest>("entries { key: 'a\\n\\x01' }"),
              StatusIs(kInvalid, HasSubstr("(\"a\\n\\x01\")")));
}

}  // namespace proto_codec_errors_test
}  // namespace tensorkv
