#include "contract/wire_reader.h"

#include <cstdint>
#include <limits>
#include <string>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"

namespace tensorkv::wire {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

// A reader of `bytes`, in chunks of one byte unless told.
class Message {
 public:
  explicit Message(std::string bytes, int chunk_bytes = 1)
      : bytes_(std::move(bytes)),
        stream_(bytes_.data(), static_cast<int>(bytes_.size()), chunk_bytes),
        reader_(&stream_, bytes_.size()) {}

  WireReader* operator->() { return &reader_; }

 private:
  const std::string bytes_;
  google::protobuf::io::ArrayInputStream stream_;
  WireReader reader_;
};

// --- Numbers ----------------------------------------------------------------

struct Number {
  std::string bytes;
  uint64_t value;
};

class NumberTest : public ::testing::TestWithParam<Number> {};

TEST_P(NumberTest, IsReadWholeAndOverChunks) {
  for (const int chunk_bytes : {100, 1}) {
    Message in(GetParam().bytes, chunk_bytes);

    EXPECT_EQ(in->ReadNumber(), GetParam().value);
    EXPECT_TRUE(in->ok());
    EXPECT_EQ(in->bytes_left(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Valid, NumberTest,
    ::testing::Values(Number{std::string(1, 0), 0}, Number{"\x01", 1},
                      Number{"\x7f", 0x7F}, Number{"\x80\x01", 0x80},
                      Number{"\xac\x02", 300}, Number{"\xff\x7f", 0x3FFF},
                      Number{"\x80\x80\x01", 0x4000},
                      Number{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                             kMax}));

class BadNumberTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BadNumberTest, Fails) {
  Message in(GetParam(), /*chunk_bytes=*/100);

  EXPECT_EQ(in->ReadNumber(), 0);
  EXPECT_FALSE(in->ok());
}

INSTANTIATE_TEST_SUITE_P(Invalid, BadNumberTest,
                         ::testing::Values(
                             // Ends early.
                             "", "\x80", "\xff\xff",
                             // Not in its shortest form.
                             std::string("\x80\0", 2),
                             std::string("\xff\x80\0", 3),
                             // More than 64 bits.
                             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
                             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x01"));

TEST(WireReaderTest, NumberAboveItsMaximumFails) {
  Message at_maximum("\x05");
  Message above("\x06");

  EXPECT_EQ(at_maximum->ReadNumberUpTo(5), 5);
  EXPECT_EQ(above->ReadNumberUpTo(5), 0);
  EXPECT_TRUE(at_maximum->ok());
  EXPECT_FALSE(above->ok());
}

// --- Fields -----------------------------------------------------------------

TEST(WireReaderTest, AcceptReadsOnlyTheTagItAsksFor) {
  Message in("\x10\x07");

  EXPECT_FALSE(in->Accept(NumberTag(1)));
  EXPECT_TRUE(in->ok());
  EXPECT_TRUE(in->Accept(NumberTag(2)));
  EXPECT_EQ(in->ReadNumber(), 7);
  EXPECT_FALSE(in->Accept(NumberTag(3)));
  EXPECT_TRUE(in->ok());
}

TEST(WireReaderTest, BytesCrossChunks) {
  for (int chunk_bytes = 1; chunk_bytes <= 6; ++chunk_bytes) {
    Message in("\x05hello", chunk_bytes);

    std::string bytes = "others";
    in->ReadBytes(&bytes);
    EXPECT_EQ(bytes, "hello") << chunk_bytes;
    EXPECT_TRUE(in->ok());
  }
}

TEST(WireReaderTest, BytesBeyondTheMessageFail) {
  Message in("\x05hell");

  std::string bytes;
  in->ReadBytes(&bytes);
  EXPECT_EQ(bytes, "");
  EXPECT_FALSE(in->ok());
}

TEST(WireReaderTest, TextIsUtf8) {
  Message good("\x02\xc3\xa9");
  Message bad("\x02\xc3\xc3");

  std::string text = "a text that is not within its string";
  good->ReadText(&text);
  EXPECT_EQ(text, "\xc3\xa9");
  EXPECT_TRUE(good->ok());
  bad->ReadText(&text);
  EXPECT_FALSE(bad->ok());
}

TEST(WireReaderTest, NestedMessageBoundsItsFields) {
  Message in("\x02\x08\x07\x08\x09");

  in->ReadMessage([&] {
    EXPECT_EQ(in->bytes_left(), 2);
    EXPECT_TRUE(in->Accept(NumberTag(1)));
    EXPECT_EQ(in->ReadNumber(), 7);
    // The next field with that tag is the outer message's.
    EXPECT_FALSE(in->Accept(NumberTag(1)));
  });

  EXPECT_TRUE(in->ok());
  EXPECT_TRUE(in->Accept(NumberTag(1)));
  EXPECT_EQ(in->ReadNumber(), 9);
}

TEST(WireReaderTest, NestedMessageMustBeReadToItsEnd) {
  Message in("\x02\x08\x07");

  in->ReadMessage([&] { EXPECT_FALSE(in->Accept(NumberTag(2))); });

  EXPECT_FALSE(in->ok());
}

TEST(WireReaderTest, FieldMustNotCrossTheEndOfItsMessage) {
  Message in("\x02\x08\x87\x01");

  in->ReadMessage([&] {
    EXPECT_TRUE(in->Accept(NumberTag(1)));
    in->ReadNumber();
    EXPECT_EQ(in->bytes_left(), 0);
  });

  EXPECT_FALSE(in->ok());
}

TEST(WireReaderTest, NestedMessageMustFitIntoTheOuterOne) {
  Message in("\x03\x08\x07");

  in->ReadMessage([&] { EXPECT_FALSE(in->Accept(NumberTag(1))); });

  EXPECT_FALSE(in->ok());
}

TEST(WireReaderTest, LengthOfANestedMessageMustBeInTheOuterOne) {
  Message in("\x01\x0a\x02\x08\x07", /*chunk_bytes=*/100);

  in->ReadMessage([&] {
    EXPECT_TRUE(in->Accept(RunTag(1)));
    in->ReadMessage([&] { EXPECT_FALSE(in->Accept(NumberTag(1))); });
  });

  EXPECT_FALSE(in->ok());
}

TEST(WireReaderTest, FailureStays) {
  Message in("\x01\x08\x07");

  in->Fail();

  EXPECT_FALSE(in->Accept(1));
  EXPECT_EQ(in->ReadNumber(), 0);
  EXPECT_EQ(in->ReadLength(), 0);
  EXPECT_EQ(in->bytes_left(), 0);
  EXPECT_FALSE(in->ok());
}

// --- Runs -------------------------------------------------------------------

TEST(WireReaderTest, SkipAndCopyCrossChunks) {
  for (int chunk_bytes = 1; chunk_bytes <= 11; ++chunk_bytes) {
    Message in("0123456789", chunk_bytes);
    std::string copied(3, 0);

    in->Skip(4);
    in->Copy(3, copied.data());

    EXPECT_TRUE(in->ok());
    EXPECT_EQ(copied, "456") << chunk_bytes;
    EXPECT_EQ(in->position(), 7) << chunk_bytes;
  }
}

TEST(WireReaderTest, RunsBeyondTheStreamFail) {
  Message skipped("0123");
  Message copied("0123");
  std::string copy(5, 0);

  skipped->Skip(5);
  copied->Copy(5, copy.data());

  EXPECT_FALSE(skipped->ok());
  EXPECT_FALSE(copied->ok());
}

TEST(WireReaderTest, StreamThatEndsBeforeItsMessageFails) {
  google::protobuf::io::ArrayInputStream stream("\x08", 1);
  WireReader in(&stream, /*size_bytes=*/100);

  EXPECT_TRUE(in.Accept(NumberTag(1)));
  EXPECT_EQ(in.ReadNumber(), 0);
  EXPECT_FALSE(in.ok());
}

}  // namespace
}  // namespace tensorkv::wire
