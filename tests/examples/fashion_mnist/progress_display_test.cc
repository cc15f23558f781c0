#include "examples/fashion_mnist/progress_display.h"

#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ProgressDisplayTest, LogGetsALinePerEpoch) {
  std::ostringstream out;
  ProgressDisplay display(out, /*is_terminal=*/false, /*num_epochs=*/6);

  display.ShowEpoch(2, 0.51234, 0.87);

  EXPECT_EQ(out.str(), "epoch 2/6  loss 0.5123  test accuracy 0.8700\n");
}

TEST(ProgressDisplayTest, LogGetsNoBar) {
  std::ostringstream out;
  ProgressDisplay display(out, /*is_terminal=*/false, /*num_epochs=*/6);

  display.ShowProgress(2, 0.5, 0.51);

  EXPECT_THAT(out.str(), IsEmpty());
}

TEST(ProgressDisplayTest, TerminalGetsABarOfTheProgress) {
  std::ostringstream out;
  ProgressDisplay display(out, /*is_terminal=*/true, /*num_epochs=*/6);

  display.ShowProgress(2, 0.5, 0.51);

  EXPECT_EQ(out.str(), "epoch 2/6 [" + std::string(15, '#') +
                           std::string(15, '.') + "] loss 0.51");
}

TEST(ProgressDisplayTest, UnchangedBarIsNotDrawnAgain) {
  std::ostringstream out;
  ProgressDisplay display(out, /*is_terminal=*/true, /*num_epochs=*/6);

  display.ShowProgress(2, 0.5, 0.51);
  const std::string once = out.str();
  display.ShowProgress(2, 0.501, 0.51);

  EXPECT_EQ(out.str(), once);
}

TEST(ProgressDisplayTest, ProgressBeyondTheEndStaysInTheBar) {
  std::ostringstream out;
  ProgressDisplay display(out, /*is_terminal=*/true, /*num_epochs=*/6);

  display.ShowProgress(2, 1.5, 0.51);

  EXPECT_THAT(out.str(), HasSubstr("[" + std::string(30, '#') + "]"));
}

TEST(ProgressDisplayTest, MessageReplacesTheBar) {
  std::ostringstream out;
  ProgressDisplay display(out, /*is_terminal=*/true, /*num_epochs=*/6);

  display.ShowProgress(2, 0.5, 0.51);
  display.ShowMessage("done");

  EXPECT_THAT(out.str(), EndsWith(" \rdone\n"));
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
