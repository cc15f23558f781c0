#include "client/cli/npy.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/elements.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::HasElements;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::TensorOf;
using ::tensorkv::testing::Vector;
using ::testing::HasSubstr;

// What numpy.save writes for numpy.array([[1, -2]], numpy.float32).
std::string SavedByNumPy() {
  return absl::StrCat(
      absl::string_view("\x93NUMPY\x01\x00v\x00", 10),
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }",
      std::string(58, ' '), "\n",
      absl::string_view("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8));
}

TEST(NpyTest, FileOfNumPyIsRead) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, ParseNpy(SavedByNumPy()));

  EXPECT_EQ(tensor.Description(), "f32[1,2]");
  EXPECT_THAT(tensor, HasElements(std::vector<double>{1, -2}));
}

TEST(NpyTest, FileIsWrittenAsNumPyWritesIt) {
  EXPECT_THAT(FormatNpy(TensorOf({1, 2}, {1, -2})),
              ::tensorkv::testing::IsOkAndHolds(SavedByNumPy()));
}

TEST(NpyTest, Version2HasALongerLength) {
  const std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}";
  const std::string file = absl::StrCat(
      absl::string_view("\x93NUMPY\x02\x00", 8), std::string(1, header.size()),
      std::string(3, '\0'), header, "\x07\x08");

  ASSERT_OK_AND_ASSIGN(const Tensor tensor, ParseNpy(file));
  EXPECT_THAT(tensor, HasElements(std::vector<double>{7, 8}));
}

TEST(NpyTest, FormatsThatNumPyLacksBecomeF32) {
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2}) {
    ASSERT_OK_AND_ASSIGN(const std::string file,
                         FormatNpy(Vector({0.25}, dtype)));
    ASSERT_OK_AND_ASSIGN(const Tensor read, ParseNpy(file));
    EXPECT_EQ(read.dtype(), DType::kF32);
  }
}

// With the bytes of what NumPy has, and the numbers of what it has not.
TEST(NpyTest, EveryDTypeAndShapeComesBack) {
  for (const DType dtype : kAllDTypes) {
    std::vector<int64_t> dimensions;
    for (int rank = 0; rank <= Shape::kMaxRank; ++rank) {
      const Shape shape = *Shape::Create(dimensions);
      ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                           Tensor::Filled(dtype, shape, 1));
      ASSERT_OK_AND_ASSIGN(const std::string file, FormatNpy(tensor));
      ASSERT_OK_AND_ASSIGN(const Tensor read, ParseNpy(file));
      EXPECT_EQ(read.shape(), shape);
      if (read.dtype() == dtype) {
        EXPECT_EQ(BytesOf(read), BytesOf(tensor)) << read.Description();
      } else {
        ASSERT_OK_AND_ASSIGN(const Tensor back, ConvertedTo(dtype, read));
        EXPECT_EQ(BytesOf(back), BytesOf(tensor)) << back.Description();
      }
      dimensions.push_back(rank == 6 ? 0 : 1 + rank % 2);
    }
  }
}

TEST(NpyTest, ElementsBeginAtAMultipleOf64) {
  ASSERT_OK_AND_ASSIGN(const std::string file,
                       FormatNpy(Vector({1, 2, 3}, DType::kI8)));

  EXPECT_EQ((file.size() - 3) % 64, 0);
}

TEST(NpyTest, OtherFilesAreRefused) {
  EXPECT_THAT(ParseNpy(""), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("not a .npy file")));
  EXPECT_THAT(ParseNpy("PK\x03\x04 zipped"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not a .npy file")));
}

TEST(NpyTest, UnknownVersionIsRefused) {
  std::string file = SavedByNumPy();
  file[6] = 9;

  EXPECT_THAT(ParseNpy(file), StatusIs(absl::StatusCode::kInvalidArgument,
                                       "version: expected 1 or 2, got 9"));
}

TEST(NpyTest, EveryTruncationIsRefused) {
  const std::string file = SavedByNumPy();

  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(ParseNpy(file.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << size;
  }
}

TEST(NpyTest, BytesAfterTheElementsAreRefused) {
  EXPECT_THAT(ParseNpy(SavedByNumPy() + "x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "elements: expected 8 bytes for f32[1,2], got 9"));
}

TEST(NpyTest, HugeShapeIsRefusedBeforeAnyAllocation) {
  std::string file = SavedByNumPy();
  file.replace(file.find("(1, 2), }"), 24, "(1, 4611686018427387), }");

  EXPECT_THAT(ParseNpy(file), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Whatever comes out, nothing crashes: the sanitizers watch.
TEST(NpyTest, AnyThreeBytesMayBeWrong) {
  std::mt19937 random(20240607);

  for (int i = 0; i < 20000; ++i) {
    std::string file = SavedByNumPy();
    for (int flip = 0; flip < 3; ++flip) {
      file[random() % file.size()] = static_cast<char>(random());
    }
    ParseNpy(file).IgnoreError();
  }
}

}  // namespace
}  // namespace tensorkv
