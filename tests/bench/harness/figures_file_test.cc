#include "bench/harness/figures_file.h"

#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;

constexpr char kDocument[] =
    "# Title\n"
    "<!-- figures: begin -->\n"
    "old\n"
    "<!-- figures: end -->\n"
    "Last line\n";
constexpr char kUpdated[] =
    "# Title\n"
    "<!-- figures: begin -->\n\n"
    "new\n\n"
    "<!-- figures: end -->\n"
    "Last line\n";

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST(FiguresFileTest, FiguresTakeThePlaceOfTheOldOnes) {
  EXPECT_EQ(WithFigures(kDocument, "new\n"), kUpdated);
  EXPECT_EQ(WithFigures(kUpdated, "new\n"), kUpdated);
}

TEST(FiguresFileTest, WithoutMarksThereAreOnlyFigures) {
  EXPECT_EQ(WithFigures("# Title\n", "new\n"), "new\n");
  EXPECT_EQ(WithFigures("", "new\n"), "new\n");
}

TEST(FiguresFileTest, MarksInTheWrongOrderAreNone) {
  EXPECT_EQ(
      WithFigures("<!-- figures: end --><!-- figures: begin -->", "new\n"),
      "new\n");
}

TEST(FiguresFileTest, AFileIsUpdated) {
  const std::string path = ::testing::TempDir() + "/figures.md";
  ASSERT_OK(WriteTextFile(path, kDocument));

  ASSERT_OK(UpdateFigures(path, "new\n"));

  EXPECT_EQ(Read(path), kUpdated);
}

TEST(FiguresFileTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THAT(UpdateFigures("/no/such/folder/file.md", "new\n"),
              StatusIs(absl::StatusCode::kUnavailable,
                       "cannot write /no/such/folder/file.md"));
}

}  // namespace
}  // namespace tensorkv::bench
