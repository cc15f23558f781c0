#include "contract/grpc_bytes.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

RefPtr<Buffer> BufferOf(const std::string& bytes) {
  return MakeRefCounted<AdoptedBuffer>(bytes.data(), bytes.size(), [] {});
}

std::vector<grpc::Slice> SlicesOf(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  return slices;
}

std::string ReadAll(grpc::ByteBuffer* bytes) {
  grpc::ProtoBufferReader reader(bytes);
  std::string all;
  const void* data = nullptr;
  int size = 0;
  while (reader.Next(&data, &size)) {
    all.append(static_cast<const char*>(data), size);
  }
  return all;
}

class GrpcBytesTest : public ::testing::Test {
 protected:
  // Too large for a slice to keep in itself.
  const std::string large_ = std::string(1000, 'x');
  const RefPtr<Buffer> buffer_ = BufferOf(large_);
};

TEST_F(GrpcBytesTest, EmptyMessageIsAnEmptyBuffer) {
  const grpc::ByteBuffer bytes = ToByteBuffer(EncodedMessage());

  EXPECT_TRUE(bytes.Valid());
  EXPECT_EQ(bytes.Length(), 0);
  EXPECT_THAT(SlicesOf(bytes), IsEmpty());
}

TEST_F(GrpcBytesTest, PiecesBecomeSlicesWithoutACopy) {
  EncodedMessage message;
  message.Add(buffer_, large_.data(), 500);
  message.Add(buffer_, large_.data() + 500, 100);

  const std::vector<grpc::Slice> slices = SlicesOf(ToByteBuffer(message));

  ASSERT_THAT(slices, SizeIs(2));
  EXPECT_EQ(static_cast<const void*>(slices[0].begin()), large_.data());
  EXPECT_EQ(slices[0].size(), 500);
  EXPECT_EQ(static_cast<const void*>(slices[1].begin()), large_.data() + 500);
  EXPECT_EQ(slices[1].size(), 100);
}

TEST_F(GrpcBytesTest, SlicesKeepTheBufferAlive) {
  EncodedMessage message;
  message.Add(buffer_, large_.data(), large_.size());
  grpc::ByteBuffer bytes = ToByteBuffer(message);

  message = EncodedMessage();
  EXPECT_FALSE(buffer_->IsUnique());
  bytes.Clear();
  EXPECT_TRUE(buffer_->IsUnique());
}

TEST_F(GrpcBytesTest, TinyPieceIsCopiedIntoItsSlice) {
  EncodedMessage message;
  message.Add(buffer_, large_.data(), 23);
  const grpc::ByteBuffer bytes = ToByteBuffer(message);

  message = EncodedMessage();

  EXPECT_TRUE(buffer_->IsUnique());
  EXPECT_EQ(bytes.Length(), 23);
}

TEST_F(GrpcBytesTest, BufferCanBeReadTwice) {
  const std::string metadata = "metadata";
  EncodedMessage message;
  message.Add(BufferOf(metadata), metadata.data(), metadata.size());
  message.Add(buffer_, large_.data(), large_.size());
  grpc::ByteBuffer bytes = ToByteBuffer(message);

  EXPECT_EQ(ReadAll(&bytes), metadata + large_);
  EXPECT_EQ(ReadAll(&bytes), metadata + large_);
}

}  // namespace
}  // namespace tensorkv
