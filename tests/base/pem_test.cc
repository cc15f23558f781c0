#include "base/pem.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using testing::Authority;
using ::testing::HasSubstr;
using testing::Identity;
using testing::StatusIs;

FileText TextOf(const std::string& option, const std::string& text) {
  return {option, "/path", text};
}

bool IsRight(const std::string& certificate, const std::string& key) {
  const absl::Status status =
      CheckCertificate(TextOf("tls_cert", certificate), TextOf("tls_key", key));
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return status.ok();
}

class PemTest : public ::testing::Test {
 protected:
  const Authority authority_{"authority"};
  const Identity own_ = authority_.Issue("a", "");
  const Identity other_ = authority_.Issue("b", "");
};

TEST_F(PemTest, TakesACertificateWithItsChainAndItsKey) {
  EXPECT_TRUE(IsRight(own_.certificate, own_.key));
  EXPECT_TRUE(IsRight(own_.certificate + authority_.certificate(), own_.key));
  EXPECT_OK(CheckAuthorities(TextOf("tls_ca", authority_.certificate())));
  EXPECT_OK(CheckAuthorities(
      TextOf("tls_ca", absl::StrCat("# ours\n", authority_.certificate(), "\n",
                                    other_.certificate))));
}

TEST_F(PemTest, RefusesWhatDoesNotFitTogether) {
  EXPECT_FALSE(IsRight(own_.certificate, other_.key));
  EXPECT_FALSE(IsRight(authority_.certificate() + own_.certificate, own_.key));
  EXPECT_FALSE(IsRight(own_.key, own_.certificate));
  EXPECT_FALSE(IsRight("", ""));
  EXPECT_FALSE(IsRight("garbage", own_.key));
  EXPECT_FALSE(IsRight(own_.certificate, "garbage"));
}

// Whatever a file has of another when somebody is still writing it.
TEST_F(PemTest, RefusesWhatIsCutOff) {
  const std::string two = own_.certificate + authority_.certificate();
  for (size_t size = 0; size + 1 < own_.certificate.size(); ++size) {
    ASSERT_FALSE(IsRight(own_.certificate.substr(0, size), own_.key)) << size;
  }
  for (size_t size = 0; size + 1 < own_.key.size(); ++size) {
    ASSERT_FALSE(IsRight(own_.certificate, own_.key.substr(0, size))) << size;
  }
  constexpr size_t kBegin = sizeof("-----BEGIN CERTIFICATE-----");
  for (size_t size = own_.certificate.size() + kBegin; size + 1 < two.size();
       ++size) {
    ASSERT_FALSE(CheckAuthorities(TextOf("a", two.substr(0, size))).ok())
        << size;
  }
}

TEST_F(PemTest, KnowsWhenACertificateCounts) {
  const absl::Time now = absl::Now();
  const FileText good = TextOf("tls_cert", own_.certificate);
  EXPECT_OK(CheckDates(good, now));
  ASSERT_OK_AND_ASSIGN(const absl::Time expiry, ExpiryOf(good));
  EXPECT_GT(expiry, now);
  EXPECT_FALSE(CheckDates(good, expiry + absl::Seconds(1)).ok());
  EXPECT_FALSE(CheckDates(good, now - absl::Hours(24 * 365 * 10)).ok());
  EXPECT_FALSE(
      CheckDates(TextOf("c", authority_.Issue("a", "", true).certificate), now)
          .ok());
}

TEST_F(PemTest, ErrorsNameTheFileAndNotWhatIsInIt) {
  EXPECT_THAT(CheckCertificate(TextOf("tls_cert", own_.certificate),
                               TextOf("tls_key", "s3cret")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("tls_key: "), HasSubstr("/path"),
                             ::testing::Not(HasSubstr("s3cret")))));
}

}  // namespace
}  // namespace tensorkv
