#include "client/cli/json_text.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/odd_names.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::Vector;
using Json = nlohmann::json;

TEST(ValueJsonTest, HasKeyDTypeShapeVersionAndValues) {
  EXPECT_EQ(ValueJson("3", {1, Full({2, 3}, 2)}),
            "{\"key\":\"3\",\"dtype\":\"f32\",\"shape\":[2,3],\"version\":1,"
            "\"values\":[2.0,2.0,2.0,2.0,2.0,2.0]}");
}

TEST(ValueJsonTest, FloatsHaveTheDigitsOfTheirDType) {
  EXPECT_EQ(Json::parse(ValueJson("k", {1, Vector({0.1, 1e-9})}))["values"],
            Json({0.1, 1e-9}));
}

TEST(ValueJsonTest, NonfiniteAreStrings) {
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(
      Json::parse(ValueJson("k", {1, Vector({infinity, -infinity,
                                             infinity - infinity})}))["values"],
      Json({"Infinity", "-Infinity", "NaN"}));
}

TEST(ValueJsonTest, IntegersAndBoolsAreThemselves) {
  EXPECT_EQ(
      Json::parse(ValueJson("k", {1, Vector({-1, 7}, DType::kI8)}))["values"],
      Json({-1, 7}));
  EXPECT_EQ(
      Json::parse(ValueJson("k", {1, Vector({1, 0}, DType::kBool)}))["values"],
      Json({true, false}));
}

TEST(ValueJsonTest, EmptyTensorHasNoValues) {
  EXPECT_EQ(Json::parse(ValueJson("k", {1, Tensor()}))["values"],
            Json::array());
}

TEST(ValueJsonTest, KeysAreEscapedWhateverTheirBytes) {
  EXPECT_EQ(Json::parse(ValueJson("a\"b\n", {1, Tensor()}))["key"], "a\"b\n");
  EXPECT_TRUE(Json::accept(ValueJson("\xff\xfe", {1, Tensor()})));
}

TEST(ValueJsonTest, EveryNameComesBack) {
  for (const std::string& name : testing::OddNames(1024)) {
    for (const std::string& text :
         {ValueJson(name, {1, Tensor()}), PushResultJson(name, {.version = 2}),
          KeyStatusJson({.key = name})}) {
      EXPECT_EQ(text.find('\n'), std::string::npos) << name;
      EXPECT_EQ(Json::parse(text)["key"], name);
    }
  }
}

TEST(PushResultJsonTest, HasTheVersionOrTheRound) {
  EXPECT_EQ(PushResultJson("k", {.version = 2}),
            "{\"key\":\"k\",\"version\":2}");
  EXPECT_EQ(PushResultJson("k", {.step = 7}), "{\"key\":\"k\",\"step\":7}");
}

TEST(KeyStatusJsonTest, HasAllMetadata) {
  KeyStatus status = {.key = "w", .dtype = DType::kBF16, .shape = {4}};
  status.version = 3;
  status.rule = {.name = "sgd", .hyperparameters = {{"momentum", 0.5}}};

  const Json json = Json::parse(KeyStatusJson(status));

  EXPECT_EQ(json["key"], "w");
  EXPECT_EQ(json["dtype"], "bf16");
  EXPECT_EQ(json["shape"], Json({4}));
  EXPECT_EQ(json["rule"], "sgd");
  EXPECT_EQ(json["hyperparameters"]["momentum"], 0.5);
  EXPECT_FALSE(json.contains("digest"));
}

TEST(KeyStatusJsonTest, DigestIsHexadecimal) {
  KeyStatus status;
  status.digest = 0xab;

  EXPECT_EQ(Json::parse(KeyStatusJson(status))["digest"], "00000000000000ab");
}

TEST(NamespaceStatusJsonTest, HasModeCountsAndRules) {
  NamespaceStatus status;
  status.name = "n";
  status.config.mode = Mode::kSync;
  status.config.num_workers = 4;
  status.rules = {{"*.bias", {.name = "sgd"}}};
  status.num_keys = 9;

  status.device_memory = {{"cuda:0", {1, 2, 3}}};

  status.config.gradient_guard.on_non_finite = OnNonFinite::kSkip;
  status.guard_counts = {{.not_finite = 1, .too_large = 2}, {.rank = 3}};

  const Json json = Json::parse(NamespaceStatusJson(status));

  EXPECT_EQ(json["namespace"], "n");
  const Json& guard = json["gradient_guard"];
  EXPECT_EQ(guard["on_non_finite"], "skip");
  EXPECT_EQ(guard["on_large_norm"], "clip");
  ASSERT_EQ(guard["counts"].size(), 2);
  EXPECT_TRUE(guard["counts"][0]["rank"].is_null());
  EXPECT_EQ(guard["counts"][0]["not_finite"], 1);
  EXPECT_EQ(guard["counts"][0]["too_large"], 2);
  EXPECT_EQ(guard["counts"][1]["rank"], 3);
  EXPECT_EQ(json["devices"][0]["device"], "cuda:0");
  EXPECT_EQ(json["devices"][0]["state_bytes"], 2);
  EXPECT_EQ(json["mode"], "sync");
  EXPECT_EQ(json["num_workers"], 4);
  EXPECT_EQ(json["num_keys"], 9);
  ASSERT_EQ(json["rules"].size(), 1);
  EXPECT_EQ(json["rules"][0]["pattern"], "*.bias");
}

TEST(MultipliersJsonTest, EmptyPatternIsThatOfAllKeysAsInRules) {
  EXPECT_EQ(Json::parse(MultipliersJson({}))["pattern"], "*");
  EXPECT_EQ(Json::parse(RuleJson("", {}))["pattern"], "*");
}

TEST(RuleJsonTest, HasPatternAndRule) {
  EXPECT_EQ(RuleJson("", {.name = "assign"}),
            "{\"pattern\":\"*\",\"rule\":\"assign\",\"hyperparameters\":{},"
            "\"keep_master\":true}");
}

}  // namespace
}  // namespace tensorkv
