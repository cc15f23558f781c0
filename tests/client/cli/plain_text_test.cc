#include "client/cli/plain_text.h"

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(PlainTextTest, OnlyControlCharactersBecomeBlanks) {
  EXPECT_EQ(PlainText("\x1b[2J a\nb\x7f"), " [2J a b ");
  EXPECT_EQ(PlainText("\u0080|\u009b2J|\u009f"), " | 2J| ");
  EXPECT_EQ(PlainText("\u00a0\u00db \u4e1b"), "\u00a0\u00db \u4e1b");
  EXPECT_EQ(PlainText("\xc2"), "\xc2");
}

}  // namespace
}  // namespace tensorkv
