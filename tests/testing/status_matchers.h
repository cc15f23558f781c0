// GoogleTest matchers for absl::Status and absl::StatusOr.
//
//   EXPECT_THAT(store.Stat(request), StatusIs(kNotFound, HasSubstr("\"w\"")));
//   ASSERT_OK_AND_ASSIGN(Value value, client->Pull("w"));

#ifndef TENSORKV_TESTS_TESTING_STATUS_MATCHERS_H_
#define TENSORKV_TESTS_TESTING_STATUS_MATCHERS_H_

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::testing {

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, negation ? "is an error" : "is OK") {
  const absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.ok();
}

MATCHER_P(StatusIs, code,
          absl::StrCat("has the code ", absl::StatusCodeToString(code))) {
  const absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code;
}

MATCHER_P2(StatusIs, code, message,
           absl::StrCat("has the code ", absl::StatusCodeToString(code),
                        " and a message that ",
                        ::testing::DescribeMatcher<std::string>(message))) {
  const absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message, std::string(status.message()),
                                       result_listener);
}

MATCHER_P(IsOkAndHolds, value, "is OK and holds the value expected") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(value, *arg, result_listener);
}

}  // namespace tensorkv::testing

#define EXPECT_OK(expr) EXPECT_THAT(expr, ::tensorkv::testing::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT(expr, ::tensorkv::testing::IsOk())

#define ASSERT_OK_AND_ASSIGN(lhs, expr)                                    \
  TENSORKV_ASSERT_OK_AND_ASSIGN_(TENSORKV_TEST_CONCAT_(_value_, __LINE__), \
                                 lhs, expr)
#define TENSORKV_ASSERT_OK_AND_ASSIGN_(value, lhs, expr) \
  auto value = (expr);                                   \
  ASSERT_THAT(value, ::tensorkv::testing::IsOk());       \
  lhs = *std::move(value)
#define TENSORKV_TEST_CONCAT_(a, b) TENSORKV_TEST_CONCAT_INNER_(a, b)
#define TENSORKV_TEST_CONCAT_INNER_(a, b) a##b

#endif  // TENSORKV_TESTS_TESTING_STATUS_MATCHERS_H_
