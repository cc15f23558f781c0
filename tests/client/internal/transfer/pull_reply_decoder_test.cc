#include "client/internal/transfer/pull_reply_decoder.h"

#include <cstdint>
#include <string>

#include "client/internal/transfer/message_bytes.h"
#include "gmock/gmock.h"
#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/data.pb.h"
#include "tests/client/patterned_tensor.h"
#include "tests/contract/generated_codec.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

v1::PullResponse Response(const std::vector<Value>& values) {
  v1::PullResponse response;
  ToProto(PullReply{values}, &response);
  return response;
}

absl::StatusOr<PullReply> Decode(const v1::PullResponse& response,
                                 uint32_t max_entries = 10) {
  grpc::ByteBuffer bytes = *Serialize(response, 1 << 20);
  return DecodePullReply(&bytes, max_entries,
                         *MakeRefCounted<BufferPool>(1 << 20));
}

TEST(PullReplyDecoderTest, ValuesComeInAlignedMemory) {
  const std::vector<Value> values = {{3, Patterned(1001, 1)},
                                     {4, Patterned(0, 2)},
                                     {5, Patterned(100'000, 3)}};

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Decode(Response(values)));

  ASSERT_THAT(reply.values, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    const Tensor& tensor = reply.values[i].tensor;
    EXPECT_EQ(reply.values[i].version, values[i].version);
    EXPECT_EQ(BytesOf(tensor), BytesOf(values[i].tensor));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0);
  }
}

TEST(PullReplyDecoderTest, DestinationsGetTheOnlyCopy) {
  std::string memory(1001, ' ');
  const Destination destination = {DType::kU8, Shape({1001}),
                                   absl::MakeSpan(memory)};
  grpc::ByteBuffer bytes =
      *Serialize(Response({{3, Patterned(1001)}, {4, Patterned(10)}}), 1 << 20);

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      DecodePullReply(&bytes, 10, *MakeRefCounted<BufferPool>(1 << 20),
                      {destination, Destination()}));

  EXPECT_EQ(memory, BytesOf(Patterned(1001)));
  EXPECT_EQ(reply.values[0].tensor.data(), memory.data());
  EXPECT_EQ(BytesOf(reply.values[1].tensor), BytesOf(Patterned(10)));
}

TEST(PullReplyDecoderTest, OtherFormsAreTakenToo) {
  v1::PullResponse response = Response({{3, Patterned(1001)}});
  response.GetReflection()->MutableUnknownFields(&response)->AddVarint(99, 1);

  ASSERT_OK_AND_ASSIGN(const PullReply reply, Decode(response));

  EXPECT_EQ(BytesOf(reply.values[0].tensor), BytesOf(Patterned(1001)));
}

TEST(PullReplyDecoderTest, MoreEntriesThanExpectedAreForTheCallerToRefuse) {
  ASSERT_OK_AND_ASSIGN(const PullReply reply,
                       Decode(Response({{3, Patterned(1)}, {4, Patterned(1)}}),
                              /*max_entries=*/1));

  EXPECT_THAT(reply.values, SizeIs(2));
}

TEST(PullReplyDecoderTest, PayloadThatDoesNotFitIsInternal) {
  v1::PullResponse response = Response({{3, Patterned(1001)}});
  response.mutable_values(0)->mutable_tensor()->set_shape(0, 1002);

  EXPECT_THAT(Decode(response), StatusIs(absl::StatusCode::kInternal,
                                         HasSubstr("malformed reply")));
}

TEST(PullReplyDecoderTest, BytesThatAreNoMessageAreInternal) {
  const grpc::Slice slice(std::string("\x7a\xff"));
  grpc::ByteBuffer bytes(&slice, 1);

  EXPECT_THAT(
      DecodePullReply(&bytes, 10, *MakeRefCounted<BufferPool>(0)),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("malformed reply")));
}

TEST(PullReplyDecoderTest, EmptyReplyHasNoValues) {
  ASSERT_OK_AND_ASSIGN(const PullReply reply, Decode(v1::PullResponse()));

  EXPECT_THAT(reply.values, SizeIs(0));
}

}  // namespace
}  // namespace tensorkv
