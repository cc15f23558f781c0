#include "service/store/round_failures.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RoundFailuresTest, AreReportedOnceToWhoContributed) {
  RoundFailures failures;
  failures.Add(1, "w", 7, "rank 2 lost its lease");

  EXPECT_FALSE(failures.Has(0));
  EXPECT_OK(failures.Take(0));
  EXPECT_TRUE(failures.Has(1));
  EXPECT_THAT(failures.Take(1),
              StatusIs(StatusCode::kAborted,
                       "round 7 of \"w\" failed: rank 2 lost its lease"));
  EXPECT_OK(failures.Take(1));
}

TEST(RoundFailuresTest, OfManyTheFirstAreNamed) {
  RoundFailures failures;
  for (Step step = 1; step <= 10000; ++step) failures.Add(1, "w", step, "r");

  const absl::Status status = failures.Take(1);

  EXPECT_THAT(status,
              StatusIs(StatusCode::kAborted,
                       AllOf(HasSubstr("round 1 of"), HasSubstr("round 4 of"),
                             Not(HasSubstr("round 5 of")),
                             HasSubstr("and 9996 more rounds"))));
}

TEST(RoundFailuresTest, WhoTakesTheRankOverHearsNothing) {
  RoundFailures failures;
  failures.Add(1, "w", 7, "r");

  failures.Forget(1);

  EXPECT_OK(failures.Take(1));
}

}  // namespace
}  // namespace tensorkv
