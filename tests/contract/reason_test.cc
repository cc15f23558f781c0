#include "contract/reason.h"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/error.pb.h"
#include "tests/testing/reason_matchers.h"

namespace tensorkv {
namespace {

using testing::IsAsListed;

TEST(ReasonTest, NamesAndNumbersAreThoseOfTheContract) {
  const auto* contract = v1::Reason_descriptor();
  for (int i = 0; i < contract->value_count(); ++i) {
    const auto& value = *contract->value(i);
    const auto reason = static_cast<Reason>(value.number());
    EXPECT_EQ(ReasonName(reason), value.name());
    EXPECT_EQ(ReasonByName(value.name()), reason);
  }
  EXPECT_EQ(ReasonByName("NEWER_THAN_THIS"), Reason::kUnspecified);
}

TEST(ReasonTest, CrossesTheWireWithItsMetadata) {
  const absl::Status status = FromGrpcStatus(ToGrpcStatus(WithReason(
      absl::AbortedError("round 7 of \"w\" failed"), Reason::kRoundFailed,
      {{"key", "w"}, {"step", 7}, {"ranks", "2,5"}})));

  EXPECT_EQ(status.message(), "round 7 of \"w\" failed");
  const std::optional<ErrorInfo> info = ErrorInfoOf(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, Reason::kRoundFailed);
  EXPECT_EQ(info->metadata,
            (std::map<std::string, std::string>{
                {"key", "w"}, {"step", "7"}, {"ranks", "2,5"}}));
}

TEST(ReasonTest, TheLatestReasonCounts) {
  const absl::Status status =
      WithReason(testing::StatusOfReason(Reason::kRoundFailed, "why"),
                 Reason::kKeyReplaced, {{"key", "w"}});

  EXPECT_EQ(ReasonOf(status), Reason::kKeyReplaced);
}

TEST(ReasonTest, FitsTheTrailersOfACall) {
  const std::string longest(64 * 1024, 'k');

  const grpc::Status status = ToGrpcStatus(WithReason(
      absl::AbortedError(longest), Reason::kKeyReplaced, {{"key", longest}}));

  // The details travel in base 64.
  EXPECT_LT(
      status.error_message().size() + status.error_details().size() * 4 / 3,
      size_t{8} * 1024);
}

// google.rpc.ErrorInfo takes UTF-8 alone, and is lost whole otherwise.
TEST(ReasonTest, DetailsAreCutBetweenCharacters) {
  std::string longest = "k";
  while (longest.size() < 2 * kMaxErrorDetailBytes) longest += "\u00e9";

  const std::optional<ErrorInfo> info = ErrorInfoOf(WithReason(
      absl::AbortedError("why"), Reason::kKeyReplaced, {{"key", longest}}));

  EXPECT_EQ(info->metadata.at("key"),
            longest.substr(0, kMaxErrorDetailBytes - 1));
}

TEST(ReasonTest, TellsWhatTheContractDoesNotList) {
  const auto with = [](absl::Status status, Reason reason,
                       std::map<std::string, std::string> metadata) {
    return WithInfo(std::move(status), {reason, std::move(metadata)});
  };
  const absl::Status lost = absl::AbortedError("rank 2");

  EXPECT_TRUE(IsAsListed(lost));
  EXPECT_TRUE(IsAsListed(with(lost, Reason::kWorkerLeft, {{"ranks", "2"}})));
  EXPECT_TRUE(IsAsListed(with(lost, Reason::kWorkerLeft,
                              {{"key", "w"}, {"step", "7"}, {"ranks", "2"}})));
  EXPECT_FALSE(IsAsListed(with(lost, Reason::kWorkerLeft, {})));
  EXPECT_FALSE(IsAsListed(
      with(lost, Reason::kWorkerLeft, {{"key", "w"}, {"ranks", "2"}})));
  EXPECT_FALSE(IsAsListed(with(absl::NotFoundError("rank 2"),
                               Reason::kWorkerLeft, {{"ranks", "2"}})));
  // An optional name.
  const absl::Status other = absl::FailedPreconditionError("another");
  EXPECT_TRUE(IsAsListed(with(other, Reason::kServerRestarted, {})));
  EXPECT_TRUE(IsAsListed(
      with(other, Reason::kServerRestarted, {{"incarnation", "1"}})));
  EXPECT_FALSE(
      IsAsListed(with(other, Reason::kServerRestarted, {{"key", "w"}})));
}

TEST(ReasonTest, MalformedInformationIsNone) {
  for (const char* bytes : {"\x0A", "\x0A\x7Fxy", "\x09xxxxxxxx", "\xFF"}) {
    absl::Status status = absl::AbortedError("why");
    status.SetPayload(kErrorInfoTypeUrl, absl::Cord(bytes));
    EXPECT_FALSE(ErrorInfoOf(status).has_value());
  }
  EXPECT_EQ(ReasonOf(absl::AbortedError("why")), Reason::kUnspecified);
}

}  // namespace
}  // namespace tensorkv
