#include "bench/harness/records_json.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tensorkv::bench {
namespace {

using ::testing::SizeIs;
using Json = nlohmann::json;

constexpr const char* kFields[] = {
    "name",           "bytes", "in_flight",    "ours_gbps", "reference",
    "reference_gbps", "ratio", "cpu_s_per_gb", "p50_us",    "p99_us"};

Row PushRow() {
  return {.name = "tcp/push/1MiB",
          .bytes = 1 << 20,
          .in_flight = 16,
          .ours = {.gigabytes_per_second = 1.5,
                   .keys_per_second = 1000,
                   .cpu_seconds_per_gigabyte = 1.25,
                   .p50_microseconds = 512,
                   .p99_microseconds = 1024},
          .references = {{"raw",
                          {.gigabytes_per_second = 3,
                           .keys_per_second = 2000,
                           .p50_microseconds = 256}},
                         {"naive", {.gigabytes_per_second = 0.5}}}};
}

Json Parse(const Section& section) {
  return Json::parse(RecordsJson({section}));
}

TEST(RecordsJsonTest, EachReferenceHasARecord) {
  const Json records = Parse({.rows = {PushRow()}});

  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0]["reference"], "raw");
  EXPECT_EQ(records[1]["reference"], "naive");
  EXPECT_EQ(records[1]["ratio"], 3);
}

TEST(RecordsJsonTest, ARecordHasEveryField) {
  const Json record = Parse({.rows = {PushRow()}})[0];

  EXPECT_EQ(record["name"], "tcp/push/1MiB");
  EXPECT_EQ(record["bytes"], 1 << 20);
  EXPECT_EQ(record["in_flight"], 16);
  EXPECT_EQ(record["ours_gbps"], 1.5);
  EXPECT_EQ(record["reference_gbps"], 3);
  EXPECT_EQ(record["ratio"], 0.5);
  EXPECT_EQ(record["cpu_s_per_gb"], 1.25);
  EXPECT_EQ(record["p50_us"], 512);
  EXPECT_EQ(record["p99_us"], 1024);
  EXPECT_EQ(record["keys_per_s"], 1000);
  EXPECT_EQ(record["reference_keys_per_s"], 2000);
  EXPECT_EQ(record["reference_p50_us"], 256);
}

TEST(RecordsJsonTest, CallsWithoutBytesAreComparedByKeys) {
  const Json record = Parse(
      {.rows = {{.name = "keys/stat/1000000",
                 .ours = {.keys_per_second = 500},
                 .references = {{"100 keys", {.keys_per_second = 1000}}}}}})[0];

  EXPECT_TRUE(record["ours_gbps"].is_null());
  EXPECT_TRUE(record["reference_gbps"].is_null());
  EXPECT_EQ(record["ratio"], 0.5);
}

TEST(RecordsJsonTest, ARowWithoutReferencesHasOneRecord) {
  const Json records = Parse({.rows = {{.name = "alone"}}});

  ASSERT_THAT(records, SizeIs(1));
  EXPECT_TRUE(records[0]["reference"].is_null());
  EXPECT_TRUE(records[0]["ratio"].is_null());
}

TEST(RecordsJsonTest, AFigureHasItsValueAndEveryOtherField) {
  const Json record = Parse(
      {.figures = {{.name = "memory", .value = 212, .unit = "bytes"}}})[0];

  EXPECT_EQ(record["name"], "memory");
  EXPECT_EQ(record["value"], 212);
  EXPECT_EQ(record["unit"], "bytes");
  for (const char* field : kFields) EXPECT_TRUE(record.contains(field));
}

TEST(RecordsJsonTest, NothingIsAnEmptyArray) {
  EXPECT_EQ(RecordsJson({}), "[]\n");
}

}  // namespace
}  // namespace tensorkv::bench
