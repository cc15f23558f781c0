// Bad input: one code each, a message that names subject, expected and actual,
// and a store as it was.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/contracts/store_contract.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_P(BadInputContractTest, WrongDType) {
  ASSERT_OK(store_.Init("fc1.w", Full({2, 3}, 1)));
  ASSERT_OK(store_.Init("n", Full({2}, 1, DType::kI32)));

  EXPECT_THAT(store_.Push("fc1.w", Full({2, 3}, 1, DType::kI32)),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"fc1.w\""), HasSubstr("f32[2,3]"),
                             HasSubstr("i32[2,3]"))));
  EXPECT_THAT(store_.Push("n", Full({2}, 1)),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"n\""), HasSubstr("i32[2]"),
                             HasSubstr("f32[2]"))));
  EXPECT_THAT(store_.Push("n", Full({2}, 1, DType::kI64)),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_P(BadInputContractTest, WrongShape) {
  ASSERT_OK(store_.Init("fc1.w", Full({2, 3}, 1)));

  for (const Shape& shape :
       {Shape({3, 2}), Shape({6}), Shape({2, 3, 1}), Shape(), Shape({0})}) {
    EXPECT_THAT(store_.Push("fc1.w", Full(shape, 1)),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"fc1.w\""), HasSubstr("f32[2,3]"),
                               HasSubstr("f32" + shape.ToString()))));
  }
  EXPECT_THAT(store_.Pull("fc1.w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(BadInputContractTest, BoolsAreZeroOrOne) {
  ASSERT_OK(store_.Init("b", Full({3}, 0, DType::kBool)));
  const char elements[] = {0, 1, 2};
  const Tensor bad = *Tensor::CopyOf(DType::kBool, {3}, elements);
  const auto is_refused =
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("got 2"));

  EXPECT_THAT(store_.Init("other", bad), is_refused);
  EXPECT_THAT(store_.Init("b", bad, OnExisting::kReplace), is_refused);
  EXPECT_THAT(store_.Push("b", bad), is_refused);
  EXPECT_THAT(store_.PushPull("b", bad), is_refused);

  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasVersion(1)));
  EXPECT_THAT(store_.Pull("other"), StatusIs(StatusCode::kNotFound));
}

struct BadName {
  std::string name;
  std::string complaint;
};

std::vector<BadName> BadNames() {
  return {{"", "1"},
          {std::string(1025, 'k'), "1025"},
          {std::string(2048, 'k'), "2048"},
          {"line\nbreak", "control"},
          {std::string("nul\0", 4), "control"},
          {"del\x7f", "control"},
          {"c1 \xc2\x85", "control"},
          {"latin \xe4", "UTF-8"},
          {"cut \xe2\x82", "UTF-8"},
          {"overlong \xc0\xaf", "UTF-8"},
          {"surrogate \xed\xa0\x80", "UTF-8"}};
}

TEST_P(BadInputContractTest, BadKeysAreInvalidInEveryVerb) {
  for (const BadName& bad : BadNames()) {
    const auto is_invalid =
        StatusIs(StatusCode::kInvalidArgument, HasSubstr(bad.complaint));
    EXPECT_THAT(store_.Init(bad.name, Full({1}, 1)), is_invalid);
    EXPECT_THAT(store_.Push(bad.name, Full({1}, 1)), is_invalid);
    EXPECT_THAT(store_.Pull(bad.name), is_invalid);
    EXPECT_THAT(store_.Await(bad.name), is_invalid);
    EXPECT_THAT(store_.PushPull(bad.name, Full({1}, 1)), is_invalid);
    EXPECT_THAT(store_.Delete({bad.name}), is_invalid);
    EXPECT_THAT(store_.Stat(bad.name), is_invalid);
  }
  EXPECT_EQ(store_.Describe()->num_keys(), 0);
}

TEST_P(BadInputContractTest, BadNamesOfNamespacesAreInvalid) {
  for (const BadName& bad : BadNames()) {
    if (bad.name.empty()) continue;  // means "default"
    EXPECT_THAT(
        store_.In(bad.name).Create({}),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr(bad.complaint)));
  }
  EXPECT_THAT(store_.In(std::string(257, 'n')).Create({}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("257")));
  EXPECT_OK(store_.In(std::string(256, 'n')).Create({}));
}

TEST_P(BadInputContractTest, UnknownNamespaceIsNotFoundInEveryVerb) {
  const Caller nowhere = store_.In("nowhere");
  const auto is_not_found =
      StatusIs(StatusCode::kNotFound, HasSubstr("\"nowhere\""));

  EXPECT_THAT(nowhere.Init("w", Full({1}, 1)), is_not_found);
  EXPECT_THAT(nowhere.Push("w", Full({1}, 1)), is_not_found);
  EXPECT_THAT(nowhere.Pull("w"), is_not_found);
  EXPECT_THAT(nowhere.Await("w"), is_not_found);
  EXPECT_THAT(nowhere.PushPull("w", Full({1}, 1)), is_not_found);
  EXPECT_THAT(nowhere.Delete({"w"}), is_not_found);
  EXPECT_THAT(nowhere.Delete({"w"}, /*allow_missing=*/true), is_not_found);
  EXPECT_THAT(nowhere.List(), is_not_found);
  EXPECT_THAT(nowhere.Stat("w"), is_not_found);
  EXPECT_THAT(nowhere.Describe(), is_not_found);
  EXPECT_THAT(nowhere.Drop(), is_not_found);
  EXPECT_THAT(nowhere.Join("a"), is_not_found);
  EXPECT_THAT(nowhere.SetRule("sgd"), is_not_found);
  EXPECT_THAT(nowhere.SetHyperparameters({{"momentum", 0}}), is_not_found);
}

TEST_P(BadInputContractTest, UnknownRuleListsTheKnownOnes) {
  EXPECT_THAT(store_.SetRule("sdg"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"sdg\""), HasSubstr("sgd"),
                             HasSubstr("adamw"))));
}

TEST_P(BadInputContractTest, UnknownHyperparameterListsTheKnownOnes) {
  EXPECT_THAT(store_.SetRule("sgd(lr=0.1)"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"lr\""), HasSubstr("learning_rate"),
                             HasSubstr("momentum"))));
}

struct BadHyperparameter {
  std::string rule;
  std::string name;
  double value;
};

TEST_P(BadInputContractTest, HyperparametersOutOfRange) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const BadHyperparameter cases[] = {{"accumulate", "scale", NAN},
                                     {"sgd", "learning_rate", NAN},
                                     {"sgd", "learning_rate", kInfinity},
                                     {"sgd", "momentum", 1},
                                     {"sgd", "momentum", -0.1},
                                     {"sgd", "clip_gradient", NAN},
                                     {"adam", "beta1", 1},
                                     {"adam", "beta2", -1e-9},
                                     {"adam", "beta2", 2},
                                     {"adam", "epsilon", -1e-8},
                                     {"adamw", "weight_decay", -kInfinity}};

  for (const BadHyperparameter& bad : cases) {
    const RuleSpec rule = {.name = bad.rule,
                           .hyperparameters = {{bad.name, bad.value}}};
    EXPECT_THAT(connection().Call(SetRuleOf(rule), {}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(bad.name)))
        << bad.rule << " " << bad.name << " " << bad.value;
  }
  EXPECT_EQ(store_.Describe()->config().rule().name(), "assign");
}

TEST_P(BadInputContractTest, RulesAndMultipliersAreNotMissing) {
  EXPECT_THAT(
      connection().Call(SetRuleRequest(), {}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("rule: missing")));
  EXPECT_THAT(connection().Call(SetMultipliersRequest(), {}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("multipliers: missing")));
}

TEST_P(BadInputContractTest, BadKeyPatterns) {
  EXPECT_THAT(store_.SetRule("sgd", "a\nb"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("control")));
  EXPECT_THAT(store_.SetRule("sgd", "\xff"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
  EXPECT_THAT(store_.SetRule("sgd", std::string(2048, '*')),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("2048")));
}

TEST_P(BadInputContractTest, TooManyEntries) {
  ASSERT_OK_AND_ASSIGN(const ServerStatus server,
                       connection().Call(DescribeServerRequest()));
  ASSERT_OK(store_.Init("w", Full(Shape(), 1)));
  const size_t too_many = server.max_entries() + 1;

  const auto is_too_many =
      StatusIs(StatusCode::kResourceExhausted,
               AllOf(HasSubstr(std::to_string(server.max_entries())),
                     HasSubstr(std::to_string(too_many))));
  EXPECT_THAT(store_.PullMany(std::vector<PullEntry>(too_many, {"w"})),
              is_too_many);
  EXPECT_THAT(store_.StatMany(std::vector<std::string>(too_many, "w")),
              is_too_many);
  EXPECT_THAT(store_.PushMany(std::vector<PushEntry>(
                  too_many, {.key = "w", .tensor = Full(Shape(), 1)})),
              is_too_many);
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(BadInputContractTest, DeadlineThatHasPassed) {
  ASSERT_OK(store_.Init("w", Full({1}, 1)));
  const Caller late = store_.WithTimeout(absl::ZeroDuration());

  EXPECT_THAT(late.Pull("w", 2), StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_THAT(late.Await("absent"), StatusIs(StatusCode::kDeadlineExceeded));

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(BadInputContractTest, ReplaceIsNotForNamespaces) {
  EXPECT_THAT(store_.In("a").Create({}, OnExisting::kReplace),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_P(BadInputContractTest, KeyTwiceInOneInit) {
  EXPECT_THAT(store_.InitMany({{"w", Full({1}, 1)}, {"w", Full({1}, 2)}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"w\"")));
  EXPECT_THAT(store_.Pull("w"), StatusIs(StatusCode::kNotFound));
}

TEST_P(BadInputContractTest, PageTokenFromNowhere) {
  EXPECT_THAT(store_.List("", 10, std::string(5000, 't')),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("page_token")));
}

}  // namespace
}  // namespace tensorkv::testing
