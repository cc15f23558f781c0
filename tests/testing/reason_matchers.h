// GoogleTest matchers for the reasons of statuses.
//
//   EXPECT_THAT(push, HasReason(Reason::kStepClosed, {{"key", "w"}, ...}));

#ifndef TENSORKV_TESTS_TESTING_REASON_MATCHERS_H_
#define TENSORKV_TESTS_TESTING_REASON_MATCHERS_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "tests/testing/listed_metadata.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

MATCHER_P(IsListedFor, reason, "") {
  std::set<std::string> names;
  for (const auto& [name, value] : arg) names.insert(name);
  for (const MetadataForm& form : MetadataOf(reason)) {
    if (form.Has(names)) return true;
  }
  *result_listener << "with other metadata than error.proto lists";
  return false;
}

MATCHER_P2(HasReasonAbout, reason, metadata,
           absl::StrCat("has the reason ", ReasonName(reason))) {
  const absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  const std::optional<ErrorInfo> info = ErrorInfoOf(status);
  return info && info->reason == reason &&
         ::testing::ExplainMatchResult(metadata, info->metadata,
                                       result_listener);
}

// With any metadata, with such as error.proto lists, or with just these.
inline auto HasReason(Reason reason) {
  return HasReasonAbout(reason, ::testing::_);
}
inline auto HasListedReason(Reason reason) {
  return HasReasonAbout(reason, IsListedFor(reason));
}
inline auto HasReason(Reason reason,
                      std::map<std::string, std::string> metadata) {
  return HasReasonAbout(reason, ::testing::Eq(std::move(metadata)));
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_REASON_MATCHERS_H_
