#include "client/cli/progress.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ProgressTest, TellsTheRateAndWhatIsLeft) {
  EXPECT_EQ(ProgressText(1 << 30, uint64_t{4} << 30, absl::Seconds(2)),
            "[#####               ] 25% of 4.0 GiB, 512.0 MiB/s, 6s left");
  EXPECT_EQ(ProgressText(0, 1024, absl::Seconds(2)),
            "[                    ] 0% of 1.0 KiB");
  EXPECT_EQ(ProgressText(0, 0, absl::ZeroDuration()),
            "[####################] 100% of 0 B");
}

TEST(ProgressTest, LineIsGoneAtTheEnd) {
  std::ostringstream out;
  {
    Progress progress(&out, 100);
    progress.Add(50);
  }
  EXPECT_THAT(out.str(), AllOf(HasSubstr("50% of 100 B"), EndsWith("\x1b[K")));
}

TEST(ProgressTest, NobodyHasToLook) { Progress(nullptr, 1).Add(1); }

}  // namespace
}  // namespace tensorkv
