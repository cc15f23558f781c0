#include "examples/fashion_mnist/dataset.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/examples/fashion_mnist/idx_bytes.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Lt;

// A directory with training images of 1 x 2 pixels.
class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_);
  }

  void WriteImages(const std::vector<uint32_t>& dimensions,
                   const std::string& pixels) {
    WriteGzip(dir_ + "/train-images-idx3-ubyte.gz",
              IdxBytes(dimensions, pixels));
  }

  // Files whose images are `contents`, compressed, without the last bytes.
  void ExpectWrong(const std::string& contents, const std::string& why,
                   size_t num_missing = 0) {
    const std::string path = dir_ + "/train-images-idx3-ubyte.gz";
    WriteGzip(path, contents);
    std::filesystem::resize_file(
        path, std::filesystem::file_size(path) - num_missing);
    EXPECT_THAT(LoadDataset(dir_, Split::kTrain),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(path + why)));
  }

  void WriteLabels(const std::string& labels) {
    WriteGzip(dir_ + "/train-labels-idx1-ubyte.gz",
              IdxBytes({static_cast<uint32_t>(labels.size())}, labels));
  }

  std::string dir_;
};

// Image i has the one pixel i and the label i.
Dataset Numbered(int64_t size) {
  Dataset dataset;
  dataset.image_size = 1;
  for (int64_t i = 0; i < size; ++i) {
    dataset.pixels.push_back(static_cast<uint8_t>(i));
    dataset.labels.push_back(static_cast<uint8_t>(i));
  }
  return dataset;
}

TEST_F(DatasetTest, LoadReadsImagesAndLabels) {
  WriteImages({2, 1, 2}, "abcd");
  WriteLabels(std::string("\3\7", 2));

  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadDataset(dir_, Split::kTrain));

  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.image_size, 2);
  EXPECT_THAT(dataset.pixels, ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(dataset.labels, ElementsAre(3, 7));
}

TEST_F(DatasetTest, LoadFromEmptyDirectoryIsNotFound) {
  EXPECT_THAT(LoadDataset(dir_, Split::kTest),
              StatusIs(StatusCode::kNotFound, HasSubstr("t10k-images")));
}

TEST_F(DatasetTest, FilesOfAnotherFormatAreInvalid) {
  std::string other_type = IdxBytes({1, 1, 1}, "x");
  other_type[2] = 0x0D;
  const std::string why = ": expected an IDX file of unsigned bytes, of rank 3";

  ExpectWrong("", why);
  ExpectWrong("this is no IDX file", why);
  ExpectWrong(other_type, why);
  ExpectWrong(IdxBytes({2, 2}, "abcd"), why);
}

TEST_F(DatasetTest, FilesOfAnotherSizeAreInvalid) {
  ExpectWrong(IdxBytes({1, 1, 1}, "").substr(0, 11),
              ": expected 3 dimensions, got 1");
  ExpectWrong(IdxBytes({2, 1, 2}, "abc"), ": expected 4 elements");
  ExpectWrong(IdxBytes({2, 1, 2}, "abcde"), ": expected 4 elements");
  ExpectWrong(IdxBytes({0x80000000, 0x80000000, 0x80000000}, ""),
              ": expected at most");
}

TEST_F(DatasetTest, FilesThatGzipFindsBrokenAreInvalid) {
  ExpectWrong(IdxBytes({2, 1, 2}, "abcd"), ": expected", /*num_missing=*/1);
  ExpectWrong(IdxBytes({2, 1, 2}, "abcd"), ": expected", /*num_missing=*/10);
}

TEST_F(DatasetTest, DimensionsMayHaveMoreThanOneByte) {
  WriteImages({1, 2, 0x0102}, std::string(2 * 0x0102, 'x'));
  WriteLabels("\3");

  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadDataset(dir_, Split::kTrain));

  EXPECT_EQ(dataset.image_size, 2 * 258);
}

TEST_F(DatasetTest, FewerLabelsThanImagesAreInvalid) {
  WriteImages({2, 1, 2}, "abcd");
  WriteLabels("\3");

  EXPECT_THAT(LoadDataset(dir_, Split::kTrain),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected 2 labels, one per image, got 1")));
}

TEST_F(DatasetTest, LabelOfNoClassIsInvalid) {
  WriteImages({2, 1, 2}, "abcd");
  WriteLabels("\3\x0A");

  EXPECT_THAT(LoadDataset(dir_, Split::kTrain),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected labels below 10, got 10")));
}

TEST(PublishedDatasetTest, HasTenThousandTestImages) {
  const std::string dir = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << dir << " is not there";

  ASSERT_OK_AND_ASSIGN(const Dataset dataset, LoadDataset(dir, Split::kTest));

  EXPECT_EQ(dataset.size(), 10000);
  EXPECT_EQ(dataset.image_size, 784);
  EXPECT_THAT(dataset.labels, Each(Lt(kNumClasses)));
}

TEST(ShardTest, ShardsTogetherAreTheDataset) {
  const Dataset dataset = Numbered(7);

  EXPECT_THAT(Shard(dataset, 0, 3).labels, ElementsAre(0, 3, 6));
  EXPECT_THAT(Shard(dataset, 1, 3).labels, ElementsAre(1, 4));
  EXPECT_THAT(Shard(dataset, 2, 3).labels, ElementsAre(2, 5));
}

TEST(ShardTest, PixelsFollowTheirLabels) {
  const Dataset shard = Shard(Numbered(7), 1, 3);

  EXPECT_THAT(shard.pixels, ElementsAreArray(shard.labels));
}

TEST(MakeBatchTest, TakesTheImagesAskedFor) {
  const Batch batch = MakeBatch(Numbered(7), {5, 0, 5});

  EXPECT_THAT(batch.labels, ElementsAre(5, 0, 5));
  EXPECT_EQ(batch.images.rows(), 3);
  EXPECT_EQ(batch.images(0, 0), batch.images(2, 0));
  EXPECT_GT(batch.images(0, 0), batch.images(1, 0));
}

TEST(MakeBatchTest, PixelsAreAboutZeroMeanAndUnitDeviation) {
  Dataset dataset;
  dataset.image_size = 2;
  dataset.pixels = {0, 255};
  dataset.labels = {0};

  const Batch batch = MakeBatch(dataset, {0});

  EXPECT_NEAR(batch.images(0, 0), -0.8102, 1e-3);
  EXPECT_NEAR(batch.images(0, 1), 2.0227, 1e-3);
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
