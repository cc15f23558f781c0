#include "client/cli/snapshot_text.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

TEST(ParseSnapshotTest, ReadsWhichOneOfASeries) {
  struct Case {
    std::string text;
    SnapshotReference expected;
  };
  for (const Case& each : {Case{"policy", LatestSnapshot("policy")},
                           Case{"policy@latest", LatestSnapshot("policy")},
                           Case{"policy@42", SnapshotOf("policy", 42)},
                           Case{"policy@>=42", SnapshotAtLeast("policy", 42)},
                           Case{"a@b@7", SnapshotOf("a@b", 7)},
                           Case{"a@b@latest", LatestSnapshot("a@b")}}) {
    ASSERT_OK_AND_ASSIGN(const SnapshotReference reference,
                         ParseSnapshot(each.text));
    EXPECT_EQ(reference.DebugString(), each.expected.DebugString());
  }
}

TEST(ParseSnapshotTest, RefusesOtherTexts) {
  for (const char* text : {"a@", "a@b", "a@-1", "a@>=", "a@>=x", "a@1.5",
                           "a@18446744073709551616"}) {
    EXPECT_THAT(ParseSnapshot(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
}

}  // namespace
}  // namespace tensorkv
