#include "service/rpc/trace_context.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpanId[] = "00f067aa0ba902b7";

TEST(TraceContextTest, TraceAndSpanAreTakenFromWhatHasTheForm) {
  const std::string ids = absl::StrCat(kTraceId, "-", kSpanId);

  EXPECT_EQ(ParseTraceParent(absl::StrCat("00-", ids, "-01")), ids);
  // A later version may say more.
  EXPECT_EQ(ParseTraceParent(absl::StrCat("01-", ids, "-00-more")), ids);
}

TEST(TraceContextTest, WhatIsNoneIsLeftOut) {
  const std::string good = absl::StrCat("00-", kTraceId, "-", kSpanId, "-01");
  for (size_t i = 0; i < good.size(); ++i) {
    std::string wrong = good;
    wrong[i] = 'G';
    EXPECT_EQ(ParseTraceParent(wrong), "") << wrong;
    EXPECT_EQ(ParseTraceParent(good.substr(0, i)), "") << i;
  }
  EXPECT_EQ(ParseTraceParent(good + "-more"), "");
  EXPECT_EQ(ParseTraceParent("ff" + good.substr(2)), "");
  EXPECT_EQ(ParseTraceParent(
                absl::StrCat("00-", std::string(32, '0'), "-", kSpanId, "-01")),
            "");
  EXPECT_EQ(ParseTraceParent(absl::StrCat("00-", kTraceId, "-",
                                          std::string(16, '0'), "-01")),
            "");
}

}  // namespace
}  // namespace tensorkv
