#include "channels/file_credentials.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace file_credentials_test {

using ::testing::AllOf;
using testing::Authority;
using ::testing::HasSubstr;
using testing::Identity;
using ::testing::Not;
using testing::StatusIs;

struct Texts {
  std::string certificate;
  std::string key;
  std::string authorities;
  std::string secret;
};

class FileCredentialsTest : public ::testing::Test {
 protected:
  static FileCredentials::Options Options(FileCredentials::Secret secret) {
    return {.files = std::vector<WatchedFile>(4), .secret = secret};
  }
  static absl::Status Load(FileCredentials& credentials, const Texts& texts) {
    return credentials.Load({{"cert", "/c", texts.certificate},
                             {"key", "/k", texts.key},
                             {"ca", "/a", texts.authorities},
                             {"secret", "/s", texts.secret}});
  }

  const Authority authority_{"authority"};
  const Identity own_ = authority_.Issue("own", "");
  const Identity other_ = authority_.Issue("other", "");
  const Texts right_ = {own_.certificate, own_.key, authority_.certificate(),
                        " token\n"};
};

TEST_F(FileCredentialsTest, WithoutFilesChannelsAreInPlainText) {
  FileCredentials credentials({});

  EXPECT_NE(credentials.current(), nullptr);
  EXPECT_OK(credentials.Read());
  EXPECT_EQ(credentials.secret(), "");
}

TEST_F(FileCredentialsTest, WhatIsRightCountsUntilSomethingElseIs) {
  FileCredentials credentials(Options(FileCredentials::Secret::kToken));
  EXPECT_EQ(credentials.current(), nullptr);
  ASSERT_OK(Load(credentials, right_));
  const auto first = credentials.current();
  EXPECT_EQ(credentials.secret(), "token");

  const Identity old = authority_.Issue("own", "", /*is_expired=*/true);
  struct Row {
    const char* option;
    Texts texts;
  };
  for (const Row& row : std::vector<Row>{
           {"cert", {"", own_.key, right_.authorities, "t"}},
           {"key", {own_.certificate, "", right_.authorities, "t"}},
           {"key", {own_.certificate, other_.key, right_.authorities, "t"}},
           {"cert",
            {own_.certificate.substr(0, 300), own_.key, right_.authorities,
             "t"}},
           {"cert", {old.certificate, old.key, right_.authorities, "t"}},
           {"ca", {own_.certificate, own_.key, "", "t"}},
           {"ca",
            {own_.certificate, own_.key, right_.authorities.substr(0, 300),
             "t"}},
           {"secret", {own_.certificate, own_.key, right_.authorities, ""}},
           {"secret",
            {own_.certificate, own_.key, right_.authorities, "two words"}}}) {
    EXPECT_THAT(Load(credentials, row.texts),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(absl::StrCat(row.option, ": ")),
                               Not(HasSubstr("two words")))));
    EXPECT_EQ(credentials.current(), first) << row.option;
    EXPECT_EQ(credentials.secret(), "token");
  }

  EXPECT_OK(Load(credentials,
                 {other_.certificate, other_.key, right_.authorities, "next"}));
  EXPECT_NE(credentials.current(), first);
  EXPECT_EQ(credentials.secret(), "next");
}

TEST_F(FileCredentialsTest, ExpiredCertificateCountsWhereThereIsNothingBetter) {
  FileCredentials credentials(Options(FileCredentials::Secret::kToken));
  const Identity old = authority_.Issue("own", "", /*is_expired=*/true);

  EXPECT_OK(Load(credentials,
                 {old.certificate, old.key, right_.authorities, "token"}));
}

TEST_F(FileCredentialsTest, PasswordMayHaveSpaces) {
  FileCredentials credentials(Options(FileCredentials::Secret::kPassword));
  Texts texts = right_;
  texts.secret = "two words\n";

  EXPECT_OK(Load(credentials, texts));

  EXPECT_EQ(credentials.secret(), "two words");
}

TEST_F(FileCredentialsTest, FilesThatCannotBeReadAreNamed) {
  FileCredentials::Options options = Options(FileCredentials::Secret::kToken);
  options.files[2] = {"ca", "/there/is/none"};

  EXPECT_THAT(FileCredentials(options).Read(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ca: ")));
}

}  // namespace file_credentials_test
}  // namespace tensorkv
