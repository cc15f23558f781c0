#include "contract/wire_writer.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contract/encoded_bytes.h"

namespace tensorkv::wire {
namespace {

using testing::BytesOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

RefPtr<Buffer> BufferOf(const std::string& bytes) {
  return MakeRefCounted<AdoptedBuffer>(bytes.data(), bytes.size(), [] {});
}

TEST(WireSizeTest, NumbersTakeSevenBitsAByte) {
  EXPECT_EQ(NumberSize(0), 1);
  EXPECT_EQ(NumberSize(0x7F), 1);
  EXPECT_EQ(NumberSize(0x80), 2);
  EXPECT_EQ(NumberSize(0x3FFF), 2);
  EXPECT_EQ(NumberSize(0x4000), 3);
  EXPECT_EQ(NumberSize(std::numeric_limits<uint64_t>::max()), 10);
}

TEST(WireSizeTest, TellsWhatIsCopiedFromWhatIsReferenced) {
  const std::string large(kMaxCopiedBytes + 1, 'x');
  const RefPtr<Buffer> buffer = BufferOf(large);
  WireSize size;

  size.Message(RunTag(1), [&](auto& out) {
    out.Bytes(RunTag(2), Payload{buffer, large});
  });

  EXPECT_EQ(size.total_bytes(), large.size() + 6);
  EXPECT_EQ(size.copied_bytes(), 6);
  EXPECT_THAT(size.lengths(), ElementsAre(large.size() + 3));
}

TEST(WireWriterTest, FieldsAtTheirDefaultsAreLeftOut) {
  const EncodedMessage message = Encode([](auto& out) {
    out.Number(NumberTag(1), 0);
    out.Bytes(RunTag(2), "");
    out.Numbers(RunTag(3), {});
    out.Bytes(RunTag(4), Payload{nullptr, ""});
  });

  EXPECT_THAT(message.pieces(), IsEmpty());
}

TEST(WireWriterTest, WritesEveryKindOfField) {
  const EncodedMessage message = Encode([](auto& out) {
    out.Number(NumberTag(1), 300);
    out.Bytes(RunTag(2), "ab");
    out.Numbers(RunTag(3), {0, 128});
    out.Message(RunTag(4), [](auto& fields) {
      fields.Message(RunTag(1), [](auto&) {});
      fields.Number(NumberTag(2), 7);
    });
  });

  EXPECT_EQ(BytesOf(message),
            std::string("\x08\xac\x02\x12\x02"
                        "ab"
                        "\x1a\x03\x00\x80\x01\x22\x04\x0a\x00\x10\x07",
                        18));
  EXPECT_THAT(message.pieces(), SizeIs(1));
}

TEST(WireWriterTest, SmallPayloadIsCopied) {
  const std::string bytes(kMaxCopiedBytes, 'x');
  const RefPtr<Buffer> buffer = BufferOf(bytes);

  const EncodedMessage message = Encode([&](auto& out) {
    out.Bytes(RunTag(1), Payload{buffer, bytes});
  });

  EXPECT_THAT(message.pieces(), SizeIs(1));
  EXPECT_TRUE(buffer->IsUnique());
  EXPECT_EQ(message.size_bytes(), bytes.size() + 3);
}

TEST(WireWriterTest, LargePayloadIsAPieceOfItsOwn) {
  const std::string bytes(kMaxCopiedBytes + 1, 'x');
  const RefPtr<Buffer> buffer = BufferOf(bytes);

  const EncodedMessage message = Encode([&](auto& out) {
    out.Bytes(RunTag(1), Payload{buffer, bytes});
    out.Number(NumberTag(2), 7);
  });

  ASSERT_THAT(message.pieces(), SizeIs(3));
  EXPECT_EQ(message.pieces()[0].size_bytes, 3);
  EXPECT_EQ(message.pieces()[1].data, bytes.data());
  EXPECT_EQ(message.pieces()[1].buffer, buffer);
  EXPECT_EQ(message.pieces()[2].buffer, message.pieces()[0].buffer);
  EXPECT_EQ(BytesOf(message), "\x0a\x81\x10" + bytes + "\x10\x07");
}

}  // namespace
}  // namespace tensorkv::wire
