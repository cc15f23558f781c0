#include "examples/fashion_mnist/idx_file.h"

#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/examples/fashion_mnist/idx_bytes.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string TempPath(const std::string& name) {
  return ::testing::TempDir() + "/" + name;
}

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

void WriteWhole(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

TEST(ParseIdxTest, ReadsDimensionsAndElements) {
  ASSERT_OK_AND_ASSIGN(const IdxFile file,
                       ParseIdx(IdxBytes({2, 3}, "\1\2\3\4\5\xFF")));

  EXPECT_THAT(file.dimensions, ElementsAre(2, 3));
  EXPECT_THAT(file.bytes, ElementsAre(1, 2, 3, 4, 5, 255));
}

TEST(ParseIdxTest, ReadsDimensionsOfMoreThanOneByte) {
  const std::string elements(0x0102, 'x');

  ASSERT_OK_AND_ASSIGN(const IdxFile file,
                       ParseIdx(IdxBytes({0x0102}, elements)));

  EXPECT_THAT(file.dimensions, ElementsAre(258));
}

TEST(ParseIdxTest, EmptyDimensionHasNoElements) {
  ASSERT_OK_AND_ASSIGN(const IdxFile file, ParseIdx(IdxBytes({0, 28}, "")));

  EXPECT_THAT(file.bytes, IsEmpty());
}

TEST(ParseIdxTest, OtherMagicNumberIsInvalid) {
  std::string contents = IdxBytes({1}, "x");
  contents[2] = 0x0D;

  EXPECT_THAT(ParseIdx(contents), StatusIs(StatusCode::kInvalidArgument,
                                           HasSubstr("magic number")));
}

TEST(ParseIdxTest, EmptyContentsAreInvalid) {
  EXPECT_THAT(ParseIdx(""),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("got 0 bytes")));
}

TEST(ParseIdxTest, TruncatedHeaderIsInvalid) {
  const std::string contents = IdxBytes({1, 1}, "").substr(0, 11);

  EXPECT_THAT(ParseIdx(contents),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected a header of 12 bytes, got 11")));
}

TEST(ParseIdxTest, MissingElementsAreInvalid) {
  EXPECT_THAT(ParseIdx(IdxBytes({2, 2}, "abc")),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected 4 elements, got 3")));
}

TEST(ParseIdxTest, SurplusElementsAreInvalid) {
  EXPECT_THAT(ParseIdx(IdxBytes({2}, "abc")),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected 2 elements, got 3")));
}

TEST(ParseIdxTest, DimensionsThatOverflowAreInvalid) {
  const std::string contents =
      IdxBytes({0x80000000, 0x80000000, 0x80000000}, "");

  EXPECT_THAT(ParseIdx(contents),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("overflow")));
}

TEST(ReadIdxFileTest, ReadsCompressedFile) {
  const std::string path = TempPath("compressed.gz");
  WriteGzip(path, IdxBytes({3}, "abc"));

  ASSERT_OK_AND_ASSIGN(const IdxFile file, ReadIdxFile(path));

  EXPECT_THAT(file.bytes, ElementsAre('a', 'b', 'c'));
}

TEST(ReadIdxFileTest, MissingFileIsNotFound) {
  const std::string path = TempPath("missing.gz");

  EXPECT_THAT(ReadIdxFile(path),
              StatusIs(StatusCode::kNotFound, HasSubstr(path)));
}

TEST(ReadIdxFileTest, TruncatedCompressionIsInvalid) {
  const std::string path = TempPath("truncated.gz");
  WriteGzip(path, IdxBytes({3}, "abc"));
  const std::string compressed = ReadWhole(path);
  WriteWhole(path, compressed.substr(0, compressed.size() - 10));

  EXPECT_THAT(ReadIdxFile(path),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(path)));
}

TEST(ReadIdxFileTest, CorruptCompressionIsInvalid) {
  const std::string path = TempPath("corrupt.gz");
  WriteGzip(path, IdxBytes({3}, "abc"));
  std::string compressed = ReadWhole(path);
  compressed[compressed.size() - 8] ^= 1;  // the checksum
  WriteWhole(path, compressed);

  EXPECT_THAT(ReadIdxFile(path),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(path)));
}

TEST(ReadIdxFileTest, FormatErrorNamesTheFile) {
  const std::string path = TempPath("malformed.gz");
  WriteGzip(path, "this is no IDX file");

  EXPECT_THAT(ReadIdxFile(path),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(path), HasSubstr("magic number"))));
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
