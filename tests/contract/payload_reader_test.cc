#include "contract/payload_reader.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "contract/wire_reader.h"
#include "gmock/gmock.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/data.pb.h"
#include "tensorkv/v1/stream.pb.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::google::protobuf::io::ArrayInputStream;

constexpr uint32_t kMaxEntries = 10;

ArrayInputStream StreamOf(const std::string& bytes, int chunk_bytes = -1) {
  return ArrayInputStream(bytes.data(), static_cast<int>(bytes.size()),
                          chunk_bytes);
}

// The encoded form of a message given as text.
template <typename Proto>
std::string Serialize(const std::string& text) {
  Proto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return proto.SerializeAsString();
}

template <typename Call>
auto Read(const std::string& bytes) {
  ArrayInputStream in = StreamOf(bytes);
  return ReadCall<Call>(&in, bytes.size(), kMaxEntries);
}

// What is read is compared with the generated code in
// payload_codec_property_test.cc.

TEST(PayloadReaderTest, PresentButEmptyMessagesArePresent) {
  ASSERT_OK_AND_ASSIGN(const Decoded<PushRequest> decoded,
                       Read<PushRequest>(Serialize<v1::PushRequest>(
                           "call_id {} worker { rank: 0 }")));

  EXPECT_TRUE(decoded.call.call_id);
  EXPECT_TRUE(decoded.call.worker);
}

// Calls that wait keep them.
TEST(PayloadReaderTest, PullChangesNameFewEncodings) {
  v1::PullRequest proto;
  for (int i = 0; i < 60; ++i) {
    proto.mutable_changes()->add_encodings(v1::DELTA_ENCODING_SPARSE);
  }
  EXPECT_OK(Read<PullRequest>(proto.SerializeAsString()));

  for (int i = 0; i < 10; ++i) {
    proto.mutable_changes()->add_encodings(v1::DELTA_ENCODING_SPARSE);
  }
  EXPECT_THAT(Read<PullRequest>(proto.SerializeAsString()).status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                "PullChanges: expected at most 64 bytes, got "
                                "72"));
}

TEST(PayloadReaderTest, DataInAManifestIsInvalid) {
  const std::string bytes = Serialize<v1::PullManifest>(
      "values { tensor { dtype: 8 shape: 1 data: 'A' } }");
  ArrayInputStream in = StreamOf(bytes);

  EXPECT_THAT(
      ReadCall<PullReply>(&in, bytes.size(), kMaxEntries, Elements::kLeftOut),
      testing::StatusIs(absl::StatusCode::kInvalidArgument,
                        ::testing::HasSubstr("expected no data")));
}

// Two bytes of unknown fields would take sixty.
TEST(PayloadReaderTest, ReferencesAreBoundedAndHaveNoUnknownFields) {
  v1::PullRequest proto;
  google::protobuf::UnknownFieldSet& unknown =
      *proto.GetReflection()->MutableUnknownFields(proto.mutable_at());
  for (int i = 0; i < 16'000; ++i) unknown.AddLengthDelimited(15);

  ASSERT_OK_AND_ASSIGN(const Decoded<PullRequest> decoded,
                       Read<PullRequest>(proto.SerializeAsString()));
  EXPECT_EQ(decoded.call.at->ByteSizeLong(), 0u);

  for (int i = 0; i < 1'000; ++i) unknown.AddLengthDelimited(15);
  EXPECT_THAT(Read<PullRequest>(proto.SerializeAsString()),
              testing::StatusIs(
                  absl::StatusCode::kInvalidArgument,
                  ::testing::HasSubstr("SnapshotReference: expected at most")));
}

// --- What the generated code decides ----------------------------------------

struct Left {
  std::string name;
  std::function<bool(const std::string&)> is_read;
  std::string bytes;
};

template <typename Call>
bool IsRead(const std::string& bytes) {
  return Read<Call>(bytes).ok();
}

// A push of one entry with that tensor.
std::string PushOf(const std::string& tensor) {
  return Serialize<v1::PushRequest>("entries { tensor { " + tensor + " } }");
}

class LeftTest : public ::testing::TestWithParam<Left> {};

TEST_P(LeftTest, IsLeftToTheGeneratedCode) {
  EXPECT_FALSE(GetParam().is_read(GetParam().bytes));
}

// What is malformed by its values is in proto_codec_errors_test.cc.
INSTANTIATE_TEST_SUITE_P(
    All, LeftTest,
    ::testing::ValuesIn(std::vector<Left>{
        Left{"UnknownField", IsRead<PushRequest>, "\x70\x01"},
        Left{"FieldTwice", IsRead<PushRequest>, "\x28\x01\x28\x02"},
        Left{"FieldsOutOfOrder", IsRead<PushRequest>, "\x28\x01\x0a\x01n"},
        Left{"Truncated", IsRead<PushRequest>, "\x0a\x05n"},
        Left{"LengthBeyondEverything", IsRead<PushRequest>,
             "\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
        Left{"NamespaceNotUtf8", IsRead<PushRequest>, "\x0a\x01\xff"},
        Left{"KeyNotUtf8", IsRead<PushRequest>, "\x7a\x05\x0a\x01\xff\x10\x01"},
        Left{"OnExistingUnknown", IsRead<InitRequest>, "\x28\x04"},
        Left{"PushMissing", IsRead<PushPullRequest>, ""},
        Left{"PushTwice", IsRead<PushPullRequest>,
             std::string("\x7a\0\x7a\0", 4)},
        Left{"RankAbove32Bits", IsRead<PushRequest>,
             "\x22\x06\x08\xff\xff\xff\xff\x1f"},
        Left{"ShapeNotPacked", IsRead<PushRequest>,
             "\x7a\x09\x7a\x07\x08\x08\x10\x01\x7a\x01"
             "A"},
        Left{"TensorLikeTheLastOneBeyondItsEntry", IsRead<PushRequest>,
             "\x7a\x0a\x7a\x08\x08\x08\x12\x01\x01\x7a\x01"
             "A"
             "\x7a\x09\x7a\x08\x08\x08\x12\x01\x01\x7a\x01"
             "A"}}),
    [](const auto& info) { return info.param.name; });

TEST(PayloadReaderTest, TooManyEntriesAreLeftToTheGeneratedCode) {
  v1::PushRequest proto;
  for (uint32_t i = 0; i < kMaxEntries; ++i)
    proto.add_entries()->set_skip(true);
  const std::string most = proto.SerializeAsString();
  proto.add_entries()->set_skip(true);

  EXPECT_OK(Read<PushRequest>(most));
  EXPECT_FALSE(Read<PushRequest>(proto.SerializeAsString()).ok());
}

TEST(PayloadReaderTest, RoomForEntriesIsBoundedByTheBytesOfTheMessage) {
  v1::PushRequest proto;
  proto.add_entries()->set_skip(true);
  proto.add_entries()->set_key(std::string(100'000, 'k'));
  proto.mutable_entries(1)->set_skip(true);
  const std::string bytes = proto.SerializeAsString();
  ArrayInputStream in = StreamOf(bytes);

  ASSERT_OK_AND_ASSIGN(const Decoded<PushRequest> decoded,
                       ReadCall<PushRequest>(&in, bytes.size(),
                                             /*max_entries=*/1'000'000'000));

  EXPECT_LE(decoded.call.entries.capacity() * sizeof(PushEntry),
            bytes.size() + sizeof(PushEntry));
}

TEST(PayloadReaderTest, MessagesOfTwoGibibytesAreLeftToTheGeneratedCode) {
  ArrayInputStream in("", 0);

  EXPECT_FALSE(
      ReadCall<PushRequest>(&in, wire::kMaxMessageBytes + 1, kMaxEntries).ok());
}

TEST(PayloadReaderTest, BytesAfterTheMessageAreNotRead) {
  const std::string bytes = PushOf("dtype: 8 data: 'A'");
  const std::string more = bytes + "more";
  ArrayInputStream in = StreamOf(more);

  EXPECT_OK(ReadCall<PushRequest>(&in, bytes.size(), kMaxEntries));
}

// --- Payloads ---------------------------------------------------------------

// Two tensors of two bytes in "01ab45cd89".
class ReadPayloadsTest : public ::testing::Test {
 protected:
  bool Read(int chunk_bytes = -1) {
    ArrayInputStream in = StreamOf(bytes_, chunk_bytes);
    return ReadPayloads(&in, payloads_, {&tensors_[0], &tensors_[1]});
  }
  absl::string_view ElementsOf(int i) const {
    return {tensors_[i].data(), static_cast<size_t>(tensors_[i].size_bytes())};
  }

  std::string bytes_ = "01ab45cd89";
  std::vector<PayloadRange> payloads_ = {{2, 2}, {6, 2}};
  std::vector<Tensor> tensors_ = {*Tensor::Filled(DType::kU8, {2}, 0),
                                  *Tensor::Filled(DType::kU8, {2}, 0)};
};

TEST_F(ReadPayloadsTest, CopiesEachToItsTensor) {
  for (int chunk_bytes = 1; chunk_bytes <= 11; ++chunk_bytes) {
    tensors_ = {*Tensor::Filled(DType::kU8, {2}, 0),
                *Tensor::Filled(DType::kU8, {2}, 0)};

    ASSERT_TRUE(Read(chunk_bytes));

    EXPECT_EQ(ElementsOf(0), "ab") << chunk_bytes;
    EXPECT_EQ(ElementsOf(1), "cd") << chunk_bytes;
  }
}

TEST_F(ReadPayloadsTest, EmptyPayloadNeedsNoTensor) {
  ArrayInputStream in = StreamOf(bytes_);

  EXPECT_TRUE(ReadPayloads(&in, {PayloadRange(), payloads_[0]},
                           {nullptr, &tensors_[0]}));
  EXPECT_EQ(ElementsOf(0), "ab");
}

TEST_F(ReadPayloadsTest, StreamThatEndsEarlyFails) {
  bytes_.resize(7);

  EXPECT_FALSE(Read());
}

TEST_F(ReadPayloadsTest, PayloadsThatGoBackFail) {
  payloads_[1].offset = 3;

  EXPECT_FALSE(Read());
}

TEST_F(ReadPayloadsTest, TensorOfAnotherSizeFails) {
  tensors_[1] = *Tensor::Filled(DType::kU8, {3}, 0);

  EXPECT_FALSE(Read());
}

TEST_F(ReadPayloadsTest, TensorWithoutMemoryFails) {
  tensors_[1] = *Tensor::WithoutData(DType::kU8, {2});

  EXPECT_FALSE(Read());
}

TEST_F(ReadPayloadsTest, AnotherNumberOfTensorsFails) {
  payloads_.pop_back();

  EXPECT_FALSE(Read());
}

TEST(CopyRangeTest, CopiesBytesOfAnyChunks) {
  for (int chunk_bytes = 1; chunk_bytes <= 11; ++chunk_bytes) {
    ArrayInputStream in("0123456789", 10, chunk_bytes);
    std::string copy(4, 0);

    ASSERT_TRUE(CopyRange(&in, {3, 4}, copy.data()));

    EXPECT_EQ(copy, "3456") << chunk_bytes;
  }
}

TEST(CopyRangeTest, RangeBeyondTheStreamFails) {
  ArrayInputStream in("0123456789", 10);
  std::string copy(4, 0);

  EXPECT_FALSE(CopyRange(&in, {7, 4}, copy.data()));
}

}  // namespace
}  // namespace tensorkv
