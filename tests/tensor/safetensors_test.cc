#include "tensor/safetensors.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/odd_names.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

std::string WithLength(const std::string& json) {
  std::string header(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(header.data(), &length, sizeof(length));
  return header + json;
}

TEST(SafetensorsTest, ParsingAHeaderGivesItsEntries) {
  std::vector<SafetensorsEntry> entries;
  for (const DType dtype : kAllDTypes) {
    for (const char* const name : {"z", "b", "y"}) {
      entries.push_back({absl::StrCat(name, " empty ", NameOf(dtype)), dtype,
                         *Shape::Create({0, 2})});
    }
    entries.push_back({absl::StrCat("a \"", NameOf(dtype), "\"\\é"), dtype,
                       *Shape::Create({3, 5})});
    entries.push_back(
        {absl::StrCat("empty ", NameOf(dtype)), dtype, *Shape::Create({0, 2})});
    entries.push_back({absl::StrCat("scalar ", NameOf(dtype)), dtype, Shape()});
  }
  const std::string header = SafetensorsHeader(absl::MakeSpan(entries));
  uint64_t size = header.size();
  for (const SafetensorsEntry& entry : entries) size += entry.size_bytes();

  const auto parsed = ParseSafetensorsHeader(header, size);

  ASSERT_OK(parsed.status());
  ASSERT_EQ(parsed->size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ((*parsed)[i].name, entries[i].name);
    EXPECT_EQ((*parsed)[i].offset, entries[i].offset);
  }
  EXPECT_EQ(header.size() % 4096, 0u);
  EXPECT_EQ(entries.front().offset, header.size());
}

// Shapes of every rank, with and without elements.
Shape ShapeOf(size_t i) {
  std::vector<int64_t> dimensions;
  for (size_t rank = i % (Shape::kMaxRank + 1); rank > 0; --rank) {
    dimensions.push_back(static_cast<int64_t>((i + rank) % 3));
  }
  return *Shape::Create(dimensions);
}

TEST(SafetensorsTest, EveryNameDTypeAndShapeComesBack) {
  std::vector<SafetensorsEntry> entries;
  for (const std::string& name : testing::OddNames(1024)) {
    entries.push_back({name, kAllDTypes[entries.size() % std::size(kAllDTypes)],
                       ShapeOf(entries.size())});
  }
  const std::string header = SafetensorsHeader(absl::MakeSpan(entries));
  uint64_t size = header.size();
  for (const SafetensorsEntry& entry : entries) size += entry.size_bytes();

  ASSERT_OK_AND_ASSIGN(const std::vector<SafetensorsEntry> parsed,
                       ParseSafetensorsHeader(header, size));

  const auto by_name = [](const std::vector<SafetensorsEntry>& all) {
    std::map<std::string, std::string> texts;
    for (const SafetensorsEntry& each : all) {
      texts[each.name] = absl::StrCat(Description(each.dtype, each.shape),
                                      " at ", each.offset);
    }
    return texts;
  };
  EXPECT_EQ(by_name(parsed), by_name(entries));
}

// Ends within the time of a test only if the time grows with their number.
TEST(SafetensorsTest, HeaderMayNameManyTensors) {
  std::vector<SafetensorsEntry> entries(50'000);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i] = {.name = absl::StrCat("layers.", i), .dtype = DType::kU8};
  }
  const std::string header = SafetensorsHeader(absl::MakeSpan(entries));

  ASSERT_OK_AND_ASSIGN(
      const auto parsed,
      ParseSafetensorsHeader(header, header.size() + entries.size()));

  EXPECT_EQ(parsed.size(), entries.size());
  EXPECT_EQ(parsed.back().name, entries.back().name);
}

TEST(SafetensorsTest, HeaderThatNamesATensorTwiceIsRefused) {
  const std::string header =
      WithLength(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                 R"("a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})");

  EXPECT_THAT(ParseSafetensorsHeader(header, header.size()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a tensor twice")));
}

struct Malformed {
  std::string json;
  uint64_t data_bytes = 0;
  std::string problem;
};

class MalformedSafetensorsTest : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedSafetensorsTest, IsRefused) {
  const std::string header = WithLength(GetParam().json);

  EXPECT_THAT(
      ParseSafetensorsHeader(header, header.size() + GetParam().data_bytes),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr(GetParam().problem)));
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedSafetensorsTest,
    ::testing::Values(
        Malformed{"", 0, "no JSON object"}, Malformed{"[]", 0, "no JSON"},
        Malformed{R"({"a":1})", 0, "an object"},
        Malformed{R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", 4,
                  "dtype"},
        Malformed{R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
                  4, "shape"},
        Malformed{
            R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
            4, "rank"},
        Malformed{
            R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
            4, ""},
        Malformed{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}})",
                  3, "data_offsets"},
        Malformed{
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,0]}})",
            0, "data_offsets"},
        Malformed{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                  8, "to begin where"},
        Malformed{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                  5, "expected a file of"}));

TEST(SafetensorsTest, AHeaderThatIsTooLargeIsRefused) {
  EXPECT_THAT(SafetensorsHeaderBytes(std::string(8, '\x7f')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(SafetensorsHeaderBytes("1234567"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv
