#include "bench/gpu/comparison_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tensorkv::bench::gpu {
namespace {

using ::testing::SizeIs;
using Json = nlohmann::json;

ComparisonTable ATable() {
  return {
      .title = "Updates",
      .comparisons =
          {{.name = "update/adam",
            .bytes = 1 << 30,
            .ours = 3800,
            .unit = "GB/s",
            .limit = Limit{"device copy", 4000, 0.95, 0.95}},
           {.name = "batch",
            .bytes = 4096,
            .ours = 1900,
            .unit = "GB/s",
            .limit = Limit{"device copy", 4000, 0.4751, 0.5}},
           {.name = "staging",
            .bytes = 4096,
            .ours = 2.5,
            .unit = "GB/s",
            .limit = Limit{"pinned copy", 50, 0.05, std::nullopt}},
           {.name = "push/p99", .bytes = 4096, .ours = 51.25, .unit = "us"}},
      .left_out = {"update/sgd: no memory"}};
}

TEST(ComparisonTextTest, ATableSaysWhatMissesItsGoal) {
  EXPECT_EQ(
      ComparisonText(ATable()),
      "### Updates\n"
      "\n"
      "| figure      |      ours |      beside | which has | ratio |    goal | "
      "met |\n"
      "|-------------|----------:|------------:|----------:|------:|--------:|-"
      "---:|\n"
      "| update/adam | 3800 GB/s | device copy | 4000 GB/s | 0.950 | >= 0.95 | "
      "yes |\n"
      "| batch       | 1900 GB/s | device copy | 4000 GB/s | 0.475 |  >= 0.5 | "
      " NO |\n"
      "| staging     | 2.50 GB/s | pinned copy | 50.0 GB/s | 0.050 |       - | "
      "  - |\n"
      "| push/p99    |   51.2 us |           - |         - |     - |       - | "
      "  - |\n"
      "\n"
      "- left out: update/sgd: no memory\n");
}

TEST(ComparisonTextTest, WithoutFiguresThereIsNoTable) {
  EXPECT_EQ(ComparisonText({.title = "Updates", .left_out = {"all: no GPU"}}),
            "### Updates\n\n- left out: all: no GPU\n");
}

TEST(ComparisonsJsonTest, EachComparisonHasARecord) {
  const Json records = Json::parse(ComparisonsJson({ATable(), ATable()}));

  ASSERT_THAT(records, SizeIs(8));
  EXPECT_EQ(records[0], Json::parse(R"({
              "name": "update/adam", "bytes": 1073741824,
              "ours": 3800.0, "unit": "GB/s",
              "reference_name": "device copy", "reference": 4000.0,
              "ratio": 0.95, "goal": 0.95})"));
}

TEST(ComparisonsJsonTest, WhatDoesNotApplyIsNull) {
  const Json records = Json::parse(ComparisonsJson({ATable()}));

  EXPECT_TRUE(records[2]["goal"].is_null());
  EXPECT_EQ(records[2]["ratio"], 0.05);
  for (const char* field : {"reference_name", "reference", "ratio", "goal"}) {
    EXPECT_TRUE(records[3].contains(field)) << field;
    EXPECT_TRUE(records[3][field].is_null()) << field;
  }
}

TEST(ComparisonsJsonTest, NothingIsAnEmptyArray) {
  EXPECT_EQ(ComparisonsJson({}), "[]\n");
}

}  // namespace
}  // namespace tensorkv::bench::gpu
