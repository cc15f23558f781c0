#include "contract/stream_codec.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "contract/wire_reader.h"
#include "gmock/gmock.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/stream.pb.h"
#include "tests/contract/encoded_bytes.h"

namespace tensorkv {
namespace {

using ::google::protobuf::io::ArrayInputStream;
using testing::BytesOf;
using ::testing::SizeIs;

std::optional<EncodedPart> Read(const std::string& bytes) {
  ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()),
                      /*block_size=*/3);
  return ReadPart(&in, bytes.size());
}

Tensor MakeTensor(int64_t size_bytes) {
  Tensor tensor = Tensor::Allocate(DType::kU8, {size_bytes}).value();
  for (int64_t i = 0; i < size_bytes; ++i) {
    tensor.mutable_data()[i] = static_cast<char>(i % 251);
  }
  return tensor;
}

// What the generated code writes for the same part, in any of the streams.
template <typename Chunk>
std::string Generated(const PartRange& range, const Tensor& tensor) {
  Chunk chunk;
  v1::Part& part = *chunk.mutable_part();
  part.set_entry(range.entry);
  part.set_offset(range.offset);
  part.set_data(tensor.data() + range.offset, range.size_bytes);
  return chunk.SerializeAsString();
}

// --- Writing ----------------------------------------------------------------

class EncodePartTest : public ::testing::TestWithParam<PartRange> {};

TEST_P(EncodePartTest, WritesWhatTheGeneratedCodeWrites) {
  const Tensor tensor = MakeTensor(100'000);

  const std::string bytes = BytesOf(EncodePart(GetParam(), tensor));

  EXPECT_EQ(bytes, Generated<v1::InitChunk>(GetParam(), tensor));
  EXPECT_EQ(bytes, Generated<v1::PushChunk>(GetParam(), tensor));
  EXPECT_EQ(bytes, Generated<v1::PullChunk>(GetParam(), tensor));
}

INSTANTIATE_TEST_SUITE_P(
    All, EncodePartTest,
    ::testing::Values(PartRange{0, 0, 0}, PartRange{0, 0, 1},
                      PartRange{1, 0, 100'000}, PartRange{300, 99'999, 1},
                      PartRange{std::numeric_limits<uint32_t>::max(), 50'000,
                                50'000}));

TEST(StreamCodecTest, LargePartReferencesItsTensor) {
  const Tensor tensor = MakeTensor(100'000);

  const EncodedMessage message = EncodePart({1, 1000, 50'000}, tensor);

  ASSERT_THAT(message.pieces(), SizeIs(2));
  EXPECT_EQ(message.pieces()[1].data, tensor.data() + 1000);
  EXPECT_EQ(message.pieces()[1].size_bytes, 50'000);
  EXPECT_EQ(message.pieces()[1].buffer, tensor.buffer());
}

TEST(StreamCodecTest, SmallPartIsCopied) {
  EXPECT_THAT(EncodePart({1, 1000, 100}, MakeTensor(100'000)).pieces(),
              SizeIs(1));
}

// --- Runs -------------------------------------------------------------------

std::vector<Value> ValuesOf(std::initializer_list<int64_t> sizes) {
  std::vector<Value> values;
  for (const int64_t size : sizes)
    values.push_back({.tensor = MakeTensor(size)});
  return values;
}

TEST(EncodeRunTest, WritesBytesOfSeveralValuesAsOnePart) {
  // Some are copied, some are referenced.
  const std::vector<Value> values = ValuesOf({10, 0, 5000, 3});

  const std::string bytes =
      BytesOf(EncodeRun({{0, 4, 6}, {2, 0, 5000}, {3, 0, 2}}, values));

  v1::PullChunk chunk;
  ASSERT_TRUE(chunk.ParseFromString(bytes));
  EXPECT_EQ(chunk.SerializeAsString(), bytes);
  EXPECT_EQ(chunk.part().entry(), 0u);
  EXPECT_EQ(chunk.part().offset(), 4u);
  const auto bytes_of = [&](size_t i, size_t offset, size_t size) {
    return std::string(values[i].tensor.data() + offset, size);
  };
  EXPECT_EQ(chunk.part().data(),
            bytes_of(0, 4, 6) + bytes_of(2, 0, 5000) + bytes_of(3, 0, 2));
}

TEST(EncodeRunTest, IsReadByPieces) {
  const std::vector<Value> values = ValuesOf({10, 3000});
  const std::string bytes =
      BytesOf(EncodeRun({{0, 1, 9}, {1, 0, 3000}}, values));
  const std::optional<EncodedPart> part = Read(bytes);
  ASSERT_TRUE(part.has_value());
  std::string first(9, 0);
  std::string second(3000, 0);

  ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()), 7);
  const bool is_copied = CopyBytes(
      &in, part->data.offset, {absl::MakeSpan(first), absl::MakeSpan(second)});

  EXPECT_TRUE(is_copied);
  EXPECT_EQ(first, std::string(values[0].tensor.data() + 1, 9));
  EXPECT_EQ(second, std::string(values[1].tensor.data(), 3000));
  ArrayInputStream again(bytes.data(), static_cast<int>(bytes.size()), 7);
  EXPECT_FALSE(CopyBytes(&again, part->data.offset + 1,
                         {absl::MakeSpan(first), absl::MakeSpan(second)}));
}

// --- Reading ----------------------------------------------------------------

TEST(StreamCodecTest, ReadsNoFurtherThanTheHeader) {
  const std::string bytes = BytesOf(EncodePart({1, 0, 1000}, MakeTensor(1000)));
  ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()),
                      /*block_size=*/16);

  EXPECT_TRUE(ReadPart(&in, bytes.size()));
  EXPECT_LE(in.ByteCount(), 16);
}

TEST(StreamCodecTest, PartWithoutDataIsRead) {
  const std::optional<EncodedPart> read = Read(std::string("\x7a\0", 2));

  ASSERT_TRUE(read);
  EXPECT_EQ(read->part, PartRange());
  EXPECT_EQ(read->data.size_bytes, 0);
}

TEST(StreamCodecTest, EverythingElseIsLeftToTheGeneratedCode) {
  v1::PushChunk manifest;
  manifest.mutable_manifest()->mutable_push()->set_step(1);
  const std::string part = Generated<v1::PushChunk>({1, 2, 3}, MakeTensor(5));

  EXPECT_FALSE(Read(""));
  EXPECT_FALSE(Read(manifest.SerializeAsString()));
  EXPECT_FALSE(Read(part + part));
  EXPECT_FALSE(Read(manifest.SerializeAsString() + part));
  // An unknown field, an entry above 32 bits, fields out of order.
  EXPECT_FALSE(Read("\x7a\x02\x18\x01"));
  EXPECT_FALSE(Read("\x7a\x06\x08\xff\xff\xff\xff\x1f"));
  EXPECT_FALSE(Read("\x7a\x04\x10\x01\x08\x01"));
}

TEST(StreamCodecTest, ChunksOfTwoGibibytesAreLeftToTheGeneratedCode) {
  ArrayInputStream in("\x7a", 1);

  EXPECT_FALSE(ReadPart(&in, wire::kMaxMessageBytes + 1));
}

}  // namespace
}  // namespace tensorkv
