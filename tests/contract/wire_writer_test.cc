#include "contract/wire_writer.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contract/encoded_bytes.h"

namespace tensorkv::wire {
namespace {

using testing::BytesOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;

RefPtr<Buffer> BufferOf(const std::string& bytes) {
  return MakeRefCounted<AdoptedBuffer>(bytes.data(), bytes.size(), [] {});
}

// Returns the message whose fields `write_fields` writes, the last one first.
template <typename WriteFields>
EncodedMessage Encode(WriteFields write_fields,
                      WireWriter::Options options = {}) {
  WireWriter out(options);
  write_fields(out);
  return std::move(out).Finish();
}

TEST(WireWriterTest, NumbersTakeSevenBitsAByte) {
  EXPECT_EQ(NumberSize(0), 1);
  EXPECT_EQ(NumberSize(0x7F), 1);
  EXPECT_EQ(NumberSize(0x80), 2);
  EXPECT_EQ(NumberSize(0x3FFF), 2);
  EXPECT_EQ(NumberSize(0x4000), 3);
  EXPECT_EQ(NumberSize(std::numeric_limits<uint64_t>::max()), 10);
}

TEST(WireWriterTest, FieldsAtTheirDefaultsAreLeftOut) {
  const EncodedMessage message = Encode([](WireWriter& out) {
    out.Bytes(RunTag(4), Payload{nullptr, ""});
    out.Fixed(Fixed64Tag(3), uint64_t{0});
    out.Bytes(RunTag(2), "");
    out.Number(NumberTag(1), 0);
  });

  EXPECT_THAT(message.pieces(), IsEmpty());
}

// Whatever memory there is at first.
TEST(WireWriterTest, WritesEveryKindOfField) {
  for (size_t likely_bytes = 0; likely_bytes <= 40; ++likely_bytes) {
    const EncodedMessage message = Encode(
        [](WireWriter& out) {
          out.Message(RunTag(5), [&] {
            out.Number(NumberTag(2), 7);
            out.Message(RunTag(1), [] {});
          });
          out.Fixed(Fixed64Tag(4), uint64_t{1} << 56);
          out.Fixed(Fixed32Tag(3), uint32_t{2});
          out.Bytes(RunTag(2), "ab");
          out.Number(NumberTag(1), 300);
        },
        {.likely_bytes = likely_bytes});

    EXPECT_EQ(BytesOf(message),
              std::string("\x08\xac\x02\x12\x02"
                          "ab"
                          "\x1d\x02\0\0\0\x21\0\0\0\0\0\0\0\x01"
                          "\x2a\x04\x0a\x00\x10\x07",
                          27));
    if (likely_bytes >= 27) EXPECT_THAT(message.pieces(), SizeIs(1));
  }
}

TEST(WireWriterTest, SmallPayloadIsCopied) {
  const std::string bytes(kMaxCopiedBytes, 'x');
  const RefPtr<Buffer> buffer = BufferOf(bytes);

  const EncodedMessage message = Encode([&](WireWriter& out) {
    out.Bytes(RunTag(1), Payload{buffer, bytes});
  });

  EXPECT_TRUE(buffer->IsUnique());
  EXPECT_EQ(message.size_bytes(), bytes.size() + 3);
}

TEST(WireWriterTest, LargePayloadIsAPieceOfItsOwn) {
  const std::string bytes(kMaxCopiedBytes + 1, 'x');
  const RefPtr<Buffer> buffer = BufferOf(bytes);

  const EncodedMessage message = Encode([&](WireWriter& out) {
    out.Number(NumberTag(2), 7);
    out.Bytes(RunTag(1), Payload{buffer, bytes});
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
