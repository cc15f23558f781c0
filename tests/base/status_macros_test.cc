#include "base/status_macros.h"

#include <memory>
#include <utility>

#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::IsOkAndHolds;

absl::Status PassOn(const absl::Status& status, bool& went_on) {
  RETURN_IF_ERROR(status);
  went_on = true;
  return absl::OkStatus();
}

absl::StatusOr<int> Sum(absl::StatusOr<int> a, absl::StatusOr<int> b) {
  ASSIGN_OR_RETURN(const int x, a);
  ASSIGN_OR_RETURN(const int y, b);
  return x + y;
}

TEST(StatusMacrosTest, ReturnIfErrorReturnsTheError) {
  bool went_on = false;

  EXPECT_EQ(PassOn(absl::NotFoundError("w"), went_on),
            absl::NotFoundError("w"));

  EXPECT_FALSE(went_on);
}

TEST(StatusMacrosTest, AssignOrReturnAssignsSeveralTimesInOneScope) {
  EXPECT_THAT(Sum(2, 3), IsOkAndHolds(5));
}

TEST(StatusMacrosTest, AssignOrReturnReturnsTheFirstError) {
  EXPECT_EQ(Sum(absl::NotFoundError("a"), absl::AbortedError("b")).status(),
            absl::NotFoundError("a"));
}

absl::StatusOr<std::unique_ptr<int>> Forward(
    absl::StatusOr<std::unique_ptr<int>> value) {
  std::unique_ptr<int> result;
  ASSIGN_OR_RETURN(result, std::move(value));
  return result;
}

TEST(StatusMacrosTest, AssignOrReturnMovesTheValue) {
  const auto result = Forward(std::make_unique<int>(7));

  ASSERT_OK(result);
  EXPECT_EQ(**result, 7);
}

}  // namespace
}  // namespace tensorkv
