#include "service/store/names.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(CheckKeyTest, TakesOneTo1024Bytes) {
  EXPECT_OK(CheckKey("w"));
  EXPECT_OK(CheckKey(std::string(1024, 'x')));

  EXPECT_THAT(CheckKey(""), StatusIs(kInvalid, HasSubstr("got 0")));
  EXPECT_THAT(CheckKey(std::string(1025, 'x')),
              StatusIs(kInvalid, AllOf(HasSubstr("1 to 1024 bytes"),
                                       HasSubstr("got 1025"))));
}

TEST(CheckKeyTest, TakesAllOfUnicode) {
  EXPECT_OK(CheckKey("größe/重み/\xF0\x9F\x98\x80"));
  EXPECT_OK(CheckKey("\xF4\x8F\xBF\xBF"));  // U+10FFFF
}

TEST(CheckKeyTest, RejectsWhatIsNotUtf8) {
  const absl::string_view malformed[] = {
      "\x80",              // a continuation byte alone
      "\xC3",              // cut off
      "\xC0\xAF",          // overlong '/'
      "\xE0\x80\xAF",      // overlong
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // above U+10FFFF
      "\xFF",
  };
  for (const absl::string_view key : malformed) {
    EXPECT_THAT(CheckKey(key), StatusIs(kInvalid, HasSubstr("UTF-8")));
  }
}

TEST(CheckKeyTest, RejectsControlCharacters) {
  EXPECT_THAT(CheckKey("a\nb"),
              StatusIs(kInvalid, HasSubstr("\"a\\nb\": expected no control "
                                           "characters, got one at byte 1")));
  EXPECT_FALSE(CheckKey(absl::string_view("a\0b", 3)).ok());
  EXPECT_FALSE(CheckKey("\x7f").ok());
  EXPECT_FALSE(CheckKey("\xC2\x85").ok());  // U+0085, next line
  EXPECT_OK(CheckKey("\xC2\xA0"));
}

// Names are looked at eight bytes at a time.
TEST(CheckKeyTest, FindsAControlCharacterAtEveryPlace) {
  for (const size_t size : {1, 7, 8, 9, 16, 23}) {
    const std::string name(size, '~');
    EXPECT_OK(CheckKey(name));
    for (size_t at = 0; at < size; ++at) {
      for (const char control : {'\x00', '\x1f', '\x7f'}) {
        std::string spoilt = name;
        spoilt[at] = control;
        EXPECT_THAT(CheckKey(spoilt),
                    StatusIs(kInvalid, HasSubstr(absl::StrCat("byte ", at))));
      }
    }
  }
}

TEST(CheckKeyTest, FindsAnInvalidByteAtEveryPlace) {
  for (const size_t size : {1, 7, 8, 9, 16, 23}) {
    for (size_t at = 0; at < size; ++at) {
      std::string spoilt(size, ' ');
      spoilt[at] = '\xff';
      EXPECT_FALSE(CheckKey(spoilt).ok()) << size << " " << at;
    }
  }
}

TEST(CheckNamespaceNameTest, TakesOneTo256Bytes) {
  EXPECT_OK(CheckNamespaceName(std::string(256, 'x')));
  EXPECT_FALSE(CheckNamespaceName(std::string(257, 'x')).ok());
  EXPECT_FALSE(CheckNamespaceName("").ok());
}

TEST(CheckKeyPatternTest, TakesTheEmptyPattern) {
  EXPECT_OK(CheckKeyPattern(""));
  EXPECT_OK(CheckKeyPattern("layer?.*"));
  EXPECT_FALSE(CheckKeyPattern("\x80").ok());
}

TEST(QuotedTest, EscapesAndCuts) {
  EXPECT_EQ(Quoted("a\"b\n"), "\"a\\\"b\\n\"");
  EXPECT_EQ(Quoted(std::string(100, 'x')),
            "\"" + std::string(80, 'x') + "...\"");
}

TEST(QuotedTest, CutsBetweenCharacters) {
  std::string name = "x";
  for (int i = 0; i < 40; ++i) name += "\u00e9";
  EXPECT_EQ(Quoted(name), "\"" + name.substr(0, 79) + "...\"");
}

TEST(QuotedTest, ShowsSomethingOfWhatIsNoCharacter) {
  EXPECT_THAT(Quoted(std::string(100, '\x80')), StartsWith("\"\x80\x80"));
}

}  // namespace
}  // namespace tensorkv
