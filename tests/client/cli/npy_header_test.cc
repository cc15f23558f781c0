#include "client/cli/npy_header.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

std::string Dict(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr +
         "', 'fortran_order': False, 'shape': " + shape + ", }";
}

struct Spelling {
  const char* descr;
  DType dtype;
};

class NpyDTypesTest : public ::testing::TestWithParam<Spelling> {};
INSTANTIATE_TEST_SUITE_P(
    , NpyDTypesTest,
    ::testing::Values(
        Spelling{"<f4", DType::kF32}, Spelling{"<f8", DType::kF64},
        Spelling{"<f2", DType::kF16}, Spelling{"|i1", DType::kI8},
        Spelling{"|u1", DType::kU8}, Spelling{"<i2", DType::kI16},
        Spelling{"<i4", DType::kI32}, Spelling{"<i8", DType::kI64},
        Spelling{"<u2", DType::kU16}, Spelling{"<u4", DType::kU32},
        Spelling{"<u8", DType::kU64}, Spelling{"|b1", DType::kBool}));

TEST_P(NpyDTypesTest, AreReadAndWritten) {
  ASSERT_OK_AND_ASSIGN(const NpyHeader header,
                       ParseNpyHeader(Dict(GetParam().descr, "(2, 3)")));

  EXPECT_EQ(header.dtype, GetParam().dtype);
  EXPECT_EQ(FormatNpyHeader(header), Dict(GetParam().descr, "(2, 3)"));
}

TEST(NpyHeaderTest, ShapesOfAnyRankAreReadAndWritten) {
  for (const char* shape :
       {"()", "(3,)", "(2, 3)", "(0, 1, 2, 3, 4, 5, 6, 7)"}) {
    ASSERT_OK_AND_ASSIGN(const NpyHeader header,
                         ParseNpyHeader(Dict("<f4", shape)));
    EXPECT_EQ(FormatNpyHeader(header), Dict("<f4", shape));
  }
}

TEST(NpyHeaderTest, OrderBlanksAndQuotesDoNotMatter) {
  ASSERT_OK_AND_ASSIGN(
      const NpyHeader header,
      ParseNpyHeader("{\"shape\":( 4,5 ) ,'fortran_order':False,\n"
                     "\"descr\" : '<i8'}   \n"));

  EXPECT_EQ(header.dtype, DType::kI64);
  EXPECT_EQ(header.shape, Shape({4, 5}));
}

TEST(NpyHeaderTest, FortranOrderIsRefused) {
  EXPECT_THAT(ParseNpyHeader(
                  "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("ascontiguousarray")));
}

TEST(NpyHeaderTest, BigEndianIsRefused) {
  EXPECT_THAT(
      ParseNpyHeader(Dict(">f4", "(2,)")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("little-endian")));
}

TEST(NpyHeaderTest, OtherDTypesAreRefusedByName) {
  EXPECT_THAT(ParseNpyHeader(Dict("<c8", "(2,)")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("<c8")));
  EXPECT_THAT(ParseNpyHeader(Dict("|O", "(2,)")),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(NpyHeaderTest, ShapesThatNoTensorHasAreRefused) {
  for (const char* shape :
       {"(-1,)", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "(4294967296, 4294967296)",
        "(99999999999999999999,)", "(2.5,)", "(2 3)", "(2", "(True,)"}) {
    EXPECT_THAT(ParseNpyHeader(Dict("<f4", shape)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << shape;
  }
}

TEST(NpyHeaderTest, MalformedDictsAreRefused) {
  for (const char* text :
       {"", "{", "{}", "descr", "{'descr'", "{'descr': }", "{'descr': '<f4",
        "{'descr': '<f4'} x", "{'color': 'red'}",
        "{'descr': '<f4', 'descr': '<f4'}", "{'fortran_order': Maybe}",
        "{'descr': '<f4' 'shape': ()}"}) {
    EXPECT_THAT(ParseNpyHeader(text),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

}  // namespace
}  // namespace tensorkv
