#include "contract/grpc_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::StatusIs;

// Every code that is an error, by its number in both enums.
class ErrorCodeTest : public ::testing::TestWithParam<int> {};

TEST_P(ErrorCodeTest, SurvivesTheRoundTrip) {
  const absl::Status status(static_cast<absl::StatusCode>(GetParam()),
                            "key \"fc1.w\": \xC3\xBC");

  const grpc::Status converted = ToGrpcStatus(status);

  EXPECT_EQ(converted.error_code(), GetParam());
  EXPECT_EQ(converted.error_message(), status.message());
  EXPECT_EQ(FromGrpcStatus(converted), status);
  // absl calls a number it does not know by an empty name.
  EXPECT_NE(absl::StatusCodeToString(status.code()), "");
}

INSTANTIATE_TEST_SUITE_P(AllCodes, ErrorCodeTest, ::testing::Range(1, 17));

TEST(GrpcStatusTest, OkIsOkBothWays) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_OK(FromGrpcStatus(grpc::Status::OK));
}

TEST(GrpcStatusTest, NumbersThatAreNoCodeBecomeUnknown) {
  const grpc::Status above(static_cast<grpc::StatusCode>(17), "why");
  const grpc::Status below(static_cast<grpc::StatusCode>(-1), "why");

  EXPECT_THAT(FromGrpcStatus(above),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("code 17: why")));
  EXPECT_THAT(FromGrpcStatus(below),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("code -1: why")));
}

TEST(GrpcStatusTest, MessageAtTheLimitIsKept) {
  const std::string message(kMaxEncodedStatusMessageBytes, 'a');

  EXPECT_EQ(ToGrpcStatus(absl::NotFoundError(message)).error_message(),
            message);
}

TEST(GrpcStatusTest, MessageOverTheLimitIsCut) {
  const std::string message(kMaxEncodedStatusMessageBytes + 1, 'a');

  const std::string cut =
      ToGrpcStatus(absl::NotFoundError(message)).error_message();

  EXPECT_THAT(cut, AllOf(SizeIs(kMaxEncodedStatusMessageBytes),
                         StartsWith("aaa"), EndsWith("a...")));
}

TEST(GrpcStatusTest, CutsBetweenCharactersOfSeveralBytes) {
  // Three bytes, nine when encoded: 682 fit with the "a" and the dots.
  const std::string euro = "\xE2\x82\xAC";
  std::string message = "a";
  for (int i = 0; i < 1000; ++i) message += euro;

  const std::string cut =
      ToGrpcStatus(absl::NotFoundError(message)).error_message();

  EXPECT_EQ(cut, absl::StrCat(message.substr(0, 1 + 682 * 3), "..."));
}

}  // namespace
}  // namespace tensorkv
