#include "service/rpc/payload_decoder.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpc/slice.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/data.pb.h"
#include "tests/contract/generated_codec.h"
#include "tests/service/fake_staging.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::HasElements;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::Vector;

class PayloadDecoderTest : public ::testing::Test {
 protected:
  static grpc::ByteBuffer Bytes(const std::string& text) {
    const grpc::Slice slice(text);
    return grpc::ByteBuffer(&slice, 1);
  }

  static PushRequest Push() {
    PushRequest push;
    push.name_space = "n";
    push.entries.push_back({.key = "a", .tensor = Vector({1, 2})});
    push.entries.push_back({.key = "b", .skip = true});
    push.entries.push_back({.key = "c", .tensor = Vector({3})});
    return push;
  }

  template <typename Message, typename Request>
  static grpc::ByteBuffer Encoded(const Request& request) {
    Message message;
    ToProto(request, &message);
    return Bytes(message.SerializeAsString());
  }

  template <typename Request>
  static absl::StatusOr<Request> RequestOf(
      absl::StatusOr<CallDispatch::Admitted<Request>> call) {
    if (!call.ok()) return call.status();
    return std::move(**call);
  }

  testing::FakeStaging staging_;
  const CallDispatch calls_{{.staging = &staging_}};
  const PayloadDecoder decoder_{&calls_, {.max_entries = 3}};
};

TEST_F(PayloadDecoderTest, PushIsReadIntoStagedMemory) {
  grpc::ByteBuffer bytes = Encoded<v1::PushRequest>(Push());

  ASSERT_OK_AND_ASSIGN(const PushRequest push,
                       RequestOf(decoder_.Decode<PushRequest>(&bytes, {})));

  ASSERT_EQ(push.entries.size(), 3u);
  EXPECT_THAT(push.entries[0].tensor, HasElements({1, 2}));
  EXPECT_TRUE(push.entries[1].skip);
  EXPECT_THAT(push.entries[2].tensor, HasElements({3}));
  EXPECT_EQ(staging_.num_allocate_calls(), 1);
  EXPECT_EQ(bytes.Length(), 0u);
}

TEST_F(PayloadDecoderTest, PushPullIsReadIntoStagedMemory) {
  PushPullRequest request = {Push()};
  request.dtype = DType::kF16;
  grpc::ByteBuffer bytes = Encoded<v1::PushPullRequest>(request);

  ASSERT_OK_AND_ASSIGN(const PushPullRequest push,
                       RequestOf(decoder_.Decode<PushPullRequest>(&bytes, {})));

  EXPECT_THAT(push.entries[0].tensor, HasElements({1, 2}));
  EXPECT_EQ(push.dtype, DType::kF16);
  EXPECT_EQ(staging_.num_allocate_calls(), 1);
}

TEST_F(PayloadDecoderTest, InitIsReadIntoStagedMemory) {
  InitRequest init;
  init.on_existing = OnExisting::kKeep;
  init.entries.push_back({"a", Vector({1, 2})});
  grpc::ByteBuffer bytes = Encoded<v1::InitRequest>(init);

  ASSERT_OK_AND_ASSIGN(const InitRequest decoded,
                       RequestOf(decoder_.Decode<InitRequest>(&bytes, {})));

  EXPECT_EQ(decoded.on_existing, OnExisting::kKeep);
  EXPECT_THAT(decoded.entries[0].tensor, HasElements({1, 2}));
  EXPECT_EQ(staging_.num_allocate_calls(), 1);
}

TEST_F(PayloadDecoderTest, OtherFieldOrdersAreReadIntoStagedMemoryToo) {
  v1::PushRequest entries, name;
  ToProto(Push(), &entries);
  entries.clear_namespace_();
  name.set_namespace_("n");
  grpc::ByteBuffer bytes =
      Bytes(entries.SerializeAsString() + name.SerializeAsString());

  ASSERT_OK_AND_ASSIGN(const PushRequest push,
                       RequestOf(decoder_.Decode<PushRequest>(&bytes, {})));

  EXPECT_EQ(push.name_space, "n");
  EXPECT_THAT(push.entries[0].tensor, HasElements({1, 2}));
  EXPECT_EQ(staging_.num_allocate_calls(), 1);
  EXPECT_EQ(bytes.Length(), 0u);
}

TEST_F(PayloadDecoderTest, UnknownFieldsAreLeftOut) {
  v1::PushRequest proto;
  ToProto(Push(), &proto);
  proto.GetReflection()->MutableUnknownFields(&proto)->AddVarint(99, 1);
  grpc::ByteBuffer bytes = Bytes(proto.SerializeAsString());

  ASSERT_OK_AND_ASSIGN(const PushRequest push,
                       RequestOf(decoder_.Decode<PushRequest>(&bytes, {})));

  EXPECT_THAT(push.entries[0].tensor, HasElements({1, 2}));
}

TEST_F(PayloadDecoderTest, ALongReferenceIsCountedBeforeItIsParsed) {
  v1::PullRequest proto;
  proto.mutable_at()->set_series("s");
  auto& unknown =
      *proto.GetReflection()->MutableUnknownFields(proto.mutable_at());
  for (int i = 0; i < 20'000; ++i) unknown.AddLengthDelimited(15);
  grpc::ByteBuffer bytes = Bytes(proto.SerializeAsString());

  EXPECT_THAT(
      decoder_.Decode<PullRequest>(&bytes, {}).status(),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("more fields")));
}

TEST_F(PayloadDecoderTest, RowsAreReadIntoMemoryOfTheirOwn) {
  PushRowsRequest rows;
  rows.entries.push_back(
      {.key = "a",
       .tensor = Vector({1, 2}),
       .rows = *RowIds::Create(testing::Full({2}, 1, DType::kI32))});
  grpc::ByteBuffer bytes = Encoded<v1::PushRowsRequest>(rows);

  ASSERT_OK_AND_ASSIGN(const PushRequest push,
                       RequestOf(decoder_.Decode<PushRowsRequest>(&bytes, {})));

  EXPECT_THAT(push.entries[0].tensor, HasElements({1, 2}));
  EXPECT_EQ(push.entries[0].rows->size(), 2);
  EXPECT_EQ(staging_.num_allocate_calls(), 0);
}

TEST_F(PayloadDecoderTest, WhatIsNoBoolIsRefused) {
  InitRequest init;
  init.entries.push_back({"a", testing::Full({2}, 1, DType::kBool)});
  v1::InitRequest proto;
  ToProto(init, &proto);
  (*proto.mutable_entries(0)->mutable_tensor()->mutable_data())[1] = 2;
  grpc::ByteBuffer bytes = Bytes(proto.SerializeAsString());

  EXPECT_THAT(decoder_.Decode<InitRequest>(&bytes, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected bools of 0 or 1, got 2")));
}

// So many tensors of 32 KiB.
PushRequest LargePush(int num_tensors = 3) {
  PushRequest push;
  for (int i = 0; i < num_tensors; ++i) {
    push.entries.push_back({.key = "w", .tensor = testing::Full({8192}, i)});
  }
  return push;
}

class InPlaceTest : public PayloadDecoderTest {
 protected:
  InPlaceTest() { staging_.set_reads_in_place(); }

  // The push as it is decoded from slices of so many bytes, behind a first
  // one of `first_bytes` if that is not 0.
  PushRequest Decoded(const PushRequest& push, size_t slice_bytes,
                      size_t first_bytes = 0) {
    v1::PushRequest message;
    ToProto(push, &message);
    const std::string text = message.SerializeAsString();
    std::vector<grpc::Slice> slices;
    if (first_bytes > 0) slices.emplace_back(text.substr(0, first_bytes));
    for (size_t i = first_bytes; i < text.size(); i += slice_bytes) {
      slices.emplace_back(text.substr(i, slice_bytes));
    }
    grpc::ByteBuffer bytes(slices.data(), slices.size());
    const PayloadDecoder decoder(&calls_, {.max_entries = 100});
    return **decoder.Decode<PushRequest>(&bytes, {});
  }

  // How many of its tensors share memory, as those in one slice do.
  static int NumShared(const PushRequest& push) {
    int num_shared = 0;
    for (const PushEntry& entry : push.entries) {
      num_shared += !entry.tensor.fills_buffer();
    }
    return num_shared;
  }

  static void ExpectSame(const PushRequest& a, const PushRequest& b) {
    for (size_t i = 0; i < a.entries.size(); ++i) {
      const Tensor& tensor = b.entries[i].tensor;
      EXPECT_EQ(std::memcmp(a.entries[i].tensor.data(), tensor.data(),
                            tensor.size_bytes()),
                0);
    }
  }
};

TEST_F(InPlaceTest, TensorsStayWhereTheyWereReceived) {
  const PushRequest push = Decoded(LargePush(), 1 << 20);

  ExpectSame(LargePush(), push);
  EXPECT_EQ(NumShared(push), 3);
  EXPECT_EQ(staging_.num_allocate_calls(), 0);
}

TEST_F(InPlaceTest, WhatStraddlesSlicesIsStaged) {
  // The second slice begins within the second tensor, the third in the third.
  const PushRequest push = Decoded(LargePush(), 40'000);

  ExpectSame(LargePush(), push);
  EXPECT_EQ(NumShared(push), 1);
  EXPECT_EQ(staging_.num_allocate_calls(), 1);
}

TEST_F(InPlaceTest, WeightedTensorsStayInPlace) {
  PushRequest weighted = LargePush(20);
  weighted.entries[1].weight = 2;

  EXPECT_EQ(NumShared(Decoded(weighted, 1 << 20)), 20);
}

TEST_F(InPlaceTest, LargeTensorsAreStaged) {
  PushRequest large = LargePush(20);
  large.entries[1].tensor = testing::Full({20'000}, 1);

  EXPECT_EQ(NumShared(Decoded(large, 1 << 20)), 19);
}

// Nothing would count what else a small tensor keeps.
TEST_F(InPlaceTest, AMessageOfMostlyLargeTensorsIsStaged) {
  PushRequest large = LargePush();
  large.entries[1].tensor = testing::Full({100'000}, 1);

  EXPECT_EQ(NumShared(Decoded(large, 1 << 20)), 0);
}

TEST_F(InPlaceTest, WhatIsInASliceWithoutMemoryOfItsOwnIsStaged) {
  PushRequest tiny = LargePush();
  tiny.entries[0].tensor = testing::Vector({1});
  v1::PushRequest first;
  PushRequest alone;
  alone.entries.push_back(tiny.entries[0]);
  ToProto(alone, &first);
  const size_t first_bytes = first.ByteSizeLong();
  ASSERT_LE(first_bytes, GRPC_SLICE_INLINED_SIZE);

  const PushRequest push = Decoded(tiny, 1 << 20, first_bytes);

  ExpectSame(tiny, push);
  EXPECT_EQ(NumShared(push), 2);
  EXPECT_EQ(staging_.num_allocate_calls(), 1);
}

TEST_F(InPlaceTest, SmallMessagesAreStaged) {
  PushRequest small = LargePush();
  small.entries.resize(1);

  EXPECT_EQ(NumShared(Decoded(small, 1 << 20)), 0);
}

TEST_F(PayloadDecoderTest, RefusedMemoryRefusesTheRequest) {
  staging_.set_allocate_status(absl::ResourceExhaustedError("budget"));
  grpc::ByteBuffer bytes = Encoded<v1::PushRequest>(Push());

  EXPECT_THAT(decoder_.Decode<PushRequest>(&bytes, {}),
              StatusIs(absl::StatusCode::kResourceExhausted, "budget"));
}

TEST_F(PayloadDecoderTest, WrongLengthIsExplained) {
  v1::PushRequest push;
  ToProto(Push(), &push);
  push.mutable_entries(0)->mutable_tensor()->set_data("abc");
  grpc::ByteBuffer bytes = Bytes(push.SerializeAsString());

  EXPECT_THAT(decoder_.Decode<PushRequest>(&bytes, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected 8 bytes for f32[2], got 3")));
}

TEST_F(PayloadDecoderTest, TooManyEntriesAreRefused) {
  PushRequest push = Push();
  push.entries.push_back({.key = "d", .tensor = Vector({3})});
  grpc::ByteBuffer bytes = Encoded<v1::PushRequest>(push);

  EXPECT_THAT(decoder_.Decode<PushRequest>(&bytes, {}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tensorkv
