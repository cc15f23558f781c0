#include "service/checkpoint/files.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() { std::filesystem::create_directories(directory_); }
  ~FilesTest() override { std::filesystem::remove_all(directory_); }

  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/files_test");
  const std::string path_ = directory_ + "/file";
};

TEST_F(FilesTest, AFileIsItsPiecesOneAfterTheOther) {
  std::string bytes;
  for (int i = 0; bytes.size() < (20 << 20); ++i) {
    absl::StrAppend(&bytes, i, " ");
  }
  const absl::string_view all = bytes;
  std::vector<absl::string_view> small(3 * IOV_MAX, all.substr(0, 7));
  small.push_back(all.substr(0, 0));
  const std::vector<absl::string_view> rows[] = {
      {},
      {all.substr(0, 0), all.substr(0, 0)},
      {all},
      {all.substr(0, 3), all.substr(3, 9 << 20), "", all.substr(9 << 20)},
      small};
  for (const std::vector<absl::string_view>& pieces : rows) {
    ASSERT_OK(WriteFile(path_, pieces));

    const auto read = ReadFile(path_);
    ASSERT_OK(read);
    EXPECT_TRUE(*read == absl::StrJoin(pieces, "")) << pieces.size();
    EXPECT_EQ(StampOf(path_)->bytes, read->size());
    ASSERT_OK(RemoveFile(path_));
  }
}

// Blocks of a disk begin and end anywhere in what is asked for.
TEST_F(FilesTest, ReadingPastTheCacheIsReading) {
  std::string bytes;
  for (int i = 0; bytes.size() < (1 << 20); ++i) absl::StrAppend(&bytes, i);
  ASSERT_OK(WriteFile(path_, {bytes}));
  const auto file = InputFile::Open(path_);
  ASSERT_OK(file);
  const DirectBuffer room(64 << 10);
  const std::vector<size_t> rows[] = {
      // The first is the offset, the others are sizes.
      {0, 1},
      {0, 4096},
      {8192, 4096, 8192, 0, 4096},
      {4096, 128 << 10},  // more than the room
      {4095, 2},
      {100, 5000, 0, 7, 4096},
      {bytes.size() - 1, 1},
      {bytes.size() - 5000, 5000},
      {4095, 64 << 10},
      {7, 100'000}};
  // Into memory that the disk could fill, and into other.
  const DirectBuffer memory(bytes.size() + 1);
  for (const size_t begin : {0, 1}) {
    const absl::Span<char> read = memory.span().subspan(begin);
    for (const std::vector<size_t>& row : rows) {
      std::vector<absl::Span<char>> to;
      size_t size = 0;
      for (size_t i = 1; i < row.size(); ++i) {
        to.push_back(read.subspan(size, row[i]));
        size += row[i];
      }
      std::fill(read.begin(), read.end(), '\0');

      ASSERT_OK(file->ReadUncached(row[0], to, room));

      EXPECT_TRUE(absl::string_view(read.data(), size) ==
                  absl::string_view(bytes).substr(row[0], size))
          << row[0] << " to " << begin;
    }
    const size_t last_block = bytes.size() / 4096 * 4096;
    for (const size_t offset : {bytes.size() - 1, last_block}) {
      EXPECT_THAT(file->ReadUncached(offset, {read.first(4096)}, room),
                  StatusIs(absl::StatusCode::kDataLoss));
    }
  }
}

TEST_F(FilesTest, ALinkHasTheStampOfItsFile) {
  ASSERT_OK(WriteFile(path_, {"bytes"}));

  ASSERT_OK(Link(path_, directory_ + "/other"));

  EXPECT_THAT(StampOf(directory_ + "/other"),
              IsOkAndHolds(StampOf(path_).value()));
  EXPECT_THAT(Link(path_, directory_ + "/other"),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Link(directory_ + "/none", directory_ + "/third"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(StampOf(directory_),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace tensorkv
