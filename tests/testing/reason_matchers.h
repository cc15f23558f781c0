// GoogleTest matchers for the reasons of statuses, and statuses to be told.
//
//   EXPECT_THAT(push, HasReason(Reason::kStepClosed, {{"key", "w"}, ...}));

#ifndef TENSORKV_TESTS_TESTING_REASON_MATCHERS_H_
#define TENSORKV_TESTS_TESTING_REASON_MATCHERS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "contract/reason.h"
#include "contract/tables.h"
#include "gmock/gmock.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

// Returns whether `metadata` has the names of one list, and no others.
inline bool Fits(absl::string_view list,
                 const std::map<std::string, std::string>& metadata) {
  size_t found = 0;
  for (absl::string_view name : absl::StrSplit(list, ", ", absl::SkipEmpty())) {
    const bool is_optional = absl::ConsumeSuffix(&name, "?");
    const size_t count = metadata.count(std::string(name));
    if (count == 0 && !is_optional) return false;
    found += count;
  }
  return found == metadata.size();
}

// Returns whether the status has the code and the metadata that error.proto
// lists for its reason, or no reason.
inline bool IsAsListed(const absl::Status& status) {
  const std::optional<ErrorInfo> info = ErrorInfoOf(status);
  if (!info || info->reason == Reason::kUnspecified) return true;
  bool is_listed = false;
  const auto compare = [&](Reason row, absl::StatusCode code,
                           absl::string_view lists) {
    if (row != info->reason || code != status.code()) return;
    for (const absl::string_view list : absl::StrSplit(lists, '|')) {
      is_listed |= Fits(list, info->metadata);
    }
  };
#define TENSORKV_COMPARE(enumerator, name, number, code, metadata) \
  compare(Reason::enumerator, absl::StatusCode::code, metadata);
  TENSORKV_REASONS(TENSORKV_COMPARE)
#undef TENSORKV_COMPARE
  return is_listed;
}

MATCHER_P2(HasReasonAbout, reason, metadata,
           absl::StrCat("has the reason ", ReasonName(reason))) {
  const absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  const std::optional<ErrorInfo> info = ErrorInfoOf(status);
  return info && info->reason == reason && IsAsListed(status) &&
         ::testing::ExplainMatchResult(metadata, info->metadata,
                                       result_listener);
}

// With such metadata as error.proto lists, or with just these.
inline auto HasReason(Reason reason) {
  return HasReasonAbout(reason, ::testing::_);
}
inline auto HasReason(Reason reason,
                      std::map<std::string, std::string> metadata) {
  return HasReasonAbout(reason, ::testing::Eq(std::move(metadata)));
}

// A status as error.proto lists it for the reason, whose metadata are all "1".
inline absl::Status StatusOfReason(Reason reason, absl::string_view message) {
  ErrorInfo info = {.reason = reason};
  absl::StatusCode code = absl::StatusCode::kUnknown;
  const auto set = [&](Reason row, absl::StatusCode row_code,
                       absl::string_view metadata) {
    if (row != reason) return;
    code = row_code;
    const absl::string_view list = *absl::StrSplit(metadata, '|').begin();
    for (absl::string_view name :
         absl::StrSplit(list, ", ", absl::SkipEmpty())) {
      info.metadata.emplace(absl::StripSuffix(name, "?"), "1");
    }
  };
#define TENSORKV_SET(enumerator, name, number, code, metadata) \
  set(Reason::enumerator, absl::StatusCode::code, metadata);
  TENSORKV_REASONS(TENSORKV_SET)
#undef TENSORKV_SET
  return WithInfo(absl::Status(code, message), info);
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_REASON_MATCHERS_H_
