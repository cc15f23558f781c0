// Weights of contributions: what they make of the mean that the rule `average`
// keeps, against a mean in f64.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace weight_contract {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSize = 300;

PushEntry Weighted(const std::string& key, Tensor tensor, double weight) {
  return {.key = key, .tensor = std::move(tensor), .weight = weight};
}

// The weighted mean of all that was added, element by element.
class Mean {
 public:
  void Add(const std::vector<double>& elements, double weight) {
    for (int i = 0; i < kSize; ++i) sums_[i] += weight * elements[i];
    total_ += weight;
  }

  void ExpectNear(const Tensor& actual, double tolerance) const {
    const std::vector<double> elements = ElementsOf(actual);
    for (int i = 0; i < kSize; ++i) {
      EXPECT_NEAR(elements[i], sums_[i] / total_, tolerance) << i;
    }
  }

 private:
  std::vector<double> sums_ = std::vector<double>(kSize);
  double total_ = 0;
};

std::vector<double> Elements(std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> elements(kSize);
  for (double& element : elements) {
    element = static_cast<float>(uniform(random));
  }
  return elements;
}

// 0 stands for 1.
double WeightOf(std::mt19937& random) {
  const double weights[] = {0, 1, 0.25, 3, 60000, 1e-3};
  return weights[random() % std::size(weights)];
}

double Counted(double weight) { return weight == 0 ? 1 : weight; }

TEST_P(RuleContractTest, AverageCountsContributionsByTheirWeights) {
  const struct {
    DType dtype;
    double tolerance;
  } kRows[] = {{DType::kF32, 1e-5}, {DType::kF64, 1e-14}, {DType::kBF16, 5e-3}};
  std::mt19937 random(1);
  ASSERT_OK(store_.SetRule("average"));
  for (const auto& [dtype, tolerance] : kRows) {
    const std::string key(NameOf(dtype));
    Mean mean;
    ASSERT_OK(store_.Init(key, Full({kSize}, 5, dtype)));
    for (int i = 0; i < 30; ++i) {
      const std::vector<double> elements = Elements(random);
      const double weight = WeightOf(random);
      ASSERT_OK(store_.PushMany({Weighted(key, Vector(elements), weight)}));
      mean.Add(elements, Counted(weight));
      mean.ExpectNear(store_.Pull(key)->tensor, tolerance);
    }
  }
}

// Beside a count of updates such weights would vanish.
TEST_P(RuleContractTest, SmallWeightsCountAsLargeOnesDo) {
  ASSERT_OK(store_.SetRule("average"));
  for (const double weight : {1e-18, 1e-14, 1e-3, 1e18}) {
    const std::string key = absl::StrCat(weight);
    ASSERT_OK(store_.Init(key, Full({2}, 5, DType::kF64)));
    for (const double element : {1, 3, 8}) {
      ASSERT_OK(store_.PushMany(
          {Weighted(key, Full({2}, element, DType::kF64), weight)}));
    }
    for (const double element : ElementsOf(store_.Pull(key)->tensor)) {
      EXPECT_NEAR(element, 4, 1e-14) << weight;
    }
  }
}

TEST_P(RuleContractTest, WeightsFollowUpdatesWithout) {
  ASSERT_OK(store_.SetRule("average"));
  ASSERT_OK(store_.InitMany({{"w", Full({2}, 9)}}));
  ASSERT_OK(store_.Push("w", Full({2}, 2)));
  ASSERT_OK(store_.Push("w", Full({2}, 4)));
  ASSERT_OK(store_.PushMany({Weighted("w", Full({2}, 9), 2)}));
  ASSERT_OK(store_.Push("w", Full({2}, 11)));

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

TEST_P(RuleContractTest, EntriesOfOneKeyHaveWeightsOfTheirOwn) {
  ASSERT_OK(store_.SetRule("average(rescale_grad=0.5)"));
  ASSERT_OK(store_.InitMany({{"v", Full({2}, 0)}, {"w", Full({2}, 0)}}));

  ASSERT_OK(store_.PushMany({Weighted("v", Full({2}, 8), 1),
                             Weighted("v", Full({2}, 4), 3),
                             Weighted("w", Full({2}, 8), 3),
                             Weighted("w", Full({2}, 4, DType::kF16), 1)}));
  EXPECT_THAT(store_.Pull("v"), IsOkAndHolds(HasTensor(IsFilledWith(5))));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));

  // It weighs 2, as that of the two does on average.
  ASSERT_OK(store_.PushMany({Weighted("w", Full({2}, 2), 2)}));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(4))));
}

TEST_P(RuleContractTest, WeightsOfOneChangeNoBits) {
  std::mt19937 random(2);
  ASSERT_OK(store_.SetRule("average(weight=0.3, initial_weight=2)"));
  ASSERT_OK(
      store_.InitMany({{"a", Full({kSize}, 1)}, {"b", Full({kSize}, 1)}}));
  for (int i = 0; i < 5; ++i) {
    const Tensor tensor = Vector(Elements(random));
    ASSERT_OK(
        store_.PushMany({Weighted("a", tensor, 0), Weighted("b", tensor, 1)}));
  }
  EXPECT_EQ(BytesOf(store_.Pull("a")->tensor),
            BytesOf(store_.Pull("b")->tensor));
}

TEST_P(RuleContractTest, WeightsAreRefusedWhereNoMeanIsKept) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  ASSERT_OK(store_.SetRule("average"));
  ASSERT_OK(store_.SetRule("sgd", "sgd*"));
  ASSERT_OK(store_.InitMany({{"w", Full({2}, 1)}, {"sgd.w", Full({2}, 1)}}));
  const struct {
    std::string key;
    double weight;
    const char* message;
  } kBad[] = {
      {"w", -1, "from 1e-18 to 1e18, got -1"},
      {"w", kNaN, "from 1e-18 to 1e18, got nan"},
      {"w", INFINITY, "got inf"},
      {"w", 1e-19, "got 1e-19"},
      {"w", 1.1e18, "got 1.1e+18"},
      {"sgd.w", 2, "the key's rule is sgd and not average, got 2"},
  };
  for (const auto& [key, weight, message] : kBad) {
    EXPECT_THAT(store_.PushMany({Weighted("w", Full({2}, 9), 2),
                                 Weighted(key, Full({2}, 9), weight)}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(1)));
  EXPECT_OK(store_.PushMany({Weighted("sgd.w", Full({2}, 0), 1)}));
}

TEST_P(RuleContractTest, TotalWeightIsAState) {
  ASSERT_OK(store_.SetRule("average"));
  ASSERT_OK(store_.InitMany({{"from", Full({2}, 0)}, {"to", Full({2}, 4)}}));
  ASSERT_OK(store_.PushMany({Weighted("from", Full({2}, 4), 2.5)}));
  ASSERT_OK_AND_ASSIGN(
      const GetStateReply states,
      store_.GetStates({{"from", "total_weight"}, {"from", "update_count"}}));
  const Tensor& total = states.values[0].tensor;
  EXPECT_THAT(store_.Stat("from")->states(), ElementsAre("total_weight"));
  EXPECT_EQ(total.Description(), "f64[]");
  EXPECT_EQ(total.elements<double>()[0], 2.5);

  ASSERT_OK(
      store_.SetStates({{"to", "total_weight", total},
                        {"to", "update_count", states.values[1].tensor}}));
  ASSERT_OK(store_.PushMany({Weighted("to", Full({2}, 9), 2.5)}));

  EXPECT_THAT(store_.Pull("to"), IsOkAndHolds(HasTensor(IsFilledWith(6.5))));
  for (const double bad : {double{NAN}, double{INFINITY}, -1.0}) {
    EXPECT_THAT(
        store_.SetStates({{"to", "total_weight", Full({}, bad, DType::kF64)}}),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr("at least 0")));
  }
}

TEST_P(RuleContractTest, WeightsCountOnWithOtherHyperparameters) {
  ASSERT_OK(store_.SetRule("average"));
  ASSERT_OK(store_.Init("w", Full({2}, 0, DType::kF16)));
  ASSERT_OK(store_.PushMany({Weighted("w", Full({2}, 8), 3)}));

  ASSERT_OK(store_.SetHyperparameters({{"weight", 2}}));
  ASSERT_OK(store_.Push("w", Full({2}, 4)));

  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

// All workers contribute to some rounds, in several orders of arrival; what a
// round makes has the same bits in each.
void ExpectWeightedRounds(const Caller& sync, uint32_t num_workers,
                          DType dtype) {
  std::mt19937 random(num_workers);
  Mean mean;
  const std::vector<std::string> keys = {"rising", "falling", "mixed"};
  for (const std::string& key : keys) {
    ASSERT_OK(sync.Init(key, Full({kSize}, 0, dtype)));
  }
  for (Step step = 1; step <= 4; ++step) {
    std::vector<std::pair<uint32_t, PushEntry>> pushes;
    for (uint32_t rank = 0; rank < num_workers; ++rank) {
      const std::vector<double> elements = Elements(random);
      const double weight = WeightOf(random);
      mean.Add(elements, Counted(weight));
      pushes.emplace_back(rank, Weighted("", Vector(elements), weight));
    }
    for (const std::string& key : keys) {
      for (auto& [rank, entry] : pushes) {
        entry.key = key;
        ASSERT_OK(sync.As(rank).PushMany({entry}, step));
      }
      if (key == "rising") std::reverse(pushes.begin(), pushes.end());
      if (key == "falling") {
        std::shuffle(pushes.begin(), pushes.end(), random);
      }
    }
    // A worker's pull waits for what it has contributed.
    const Tensor value = sync.As(0).Pull("rising")->tensor;
    EXPECT_EQ(BytesOf(sync.As(0).Pull("falling")->tensor), BytesOf(value));
    EXPECT_EQ(BytesOf(sync.As(0).Pull("mixed")->tensor), BytesOf(value));
    mean.ExpectNear(value, dtype == DType::kF64 ? 1e-13 : 1e-5);
  }
}

// Some of many contributions are summed before their round ends.
TEST_P(RoundSumContractTest, RoundsHaveTheWeightedMean) {
  for (const auto& [num_workers, dtype] :
       {std::pair(4u, DType::kF32), {32u, DType::kF32}, {16u, DType::kF64}}) {
    const RuleSpec rule = {"average", {{"rescale_grad", 1.0 / num_workers}}};
    const Caller sync = NewNamespace(
        absl::StrCat(num_workers),
        {.mode = Mode::kSync, .num_workers = num_workers, .rule = rule});
    ExpectWeightedRounds(sync, num_workers, dtype);
  }
}

TEST_P(RoundSumContractTest, PartialRoundsHaveTheWeightedMeanOfThoseThere) {
  NamespaceConfig config = {
      .mode = Mode::kSync,
      .num_workers = 4,
      .rule = RuleSpec{"average", {{"rescale_grad", 0.25}}}};
  config.rescale_partial_rounds = true;
  config.quorum = 2;
  config.quorum_grace = absl::Milliseconds(50);
  const Caller sync = NewNamespace("partial", config);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  ASSERT_OK(sync.As(3).PushMany({Weighted("w", Full({2}, 8), 3)}, 1));
  ASSERT_OK(sync.As(1).PushMany({Weighted("w", Full({2}, 4), 1)}, 1));

  EXPECT_THAT(sync.As(1).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

TEST_P(RoundSumContractTest, SkippedContributionsHaveNoWeight) {
  const Caller sync = NewSyncNamespace(3, "average(rescale_grad=0.5)");
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  ASSERT_OK(sync.As(0).PushMany({Weighted("w", Full({2}, 8), 3)}, 1));
  ASSERT_OK(sync.As(1).Skip("w", 1));
  ASSERT_OK(sync.As(2).PushMany({Weighted("w", Full({2}, 4), 1)}, 1));

  EXPECT_THAT(sync.As(2).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

TEST_P(RoundSumContractTest, WeightsAreRefusedWhereRoundsHaveMedians) {
  const Caller sync =
      NewNamespace("median", {.mode = Mode::kSync,
                              .num_workers = 1,
                              .rule = RuleSpec{"average"},
                              .aggregation = Aggregation::kMedian});
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  EXPECT_THAT(sync.As(0).PushMany({Weighted("w", Full({2}, 8), 3)}, 1),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("contributions are not summed, got 3")));
}

TEST_P(RoundSumContractTest, RoundWithWeightsFailsUnderAnotherRule) {
  const Caller sync = NewSyncNamespace(2, "average");
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.As(0).PushMany({Weighted("w", Full({2}, 8), 3)}, 1));

  ASSERT_OK(sync.SetRule("sgd"));
  ASSERT_OK(sync.As(1).Push("w", Full({2}, 8), 1));

  EXPECT_THAT(sync.As(0).Pull("w"),
              AllOf(HasReason(Reason::kRoundFailed),
                    StatusIs(StatusCode::kAborted,
                             HasSubstr("before the rule changed to sgd"))));
  EXPECT_THAT(sync.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

// Its answer may have been lost.
TEST_P(RoundSumContractTest, RepeatsWithWeightsAreKnownUnderAnotherRule) {
  const Caller sync = NewNamespace(
      "n",
      {.mode = Mode::kSync, .num_workers = 1, .rule = RuleSpec{"average"}});
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  const auto push = [&](uint64_t sequence) {
    PushRequest request = {.name_space = "n"};
    request.call_id = CallId{"a client", sequence};
    request.worker = Worker{.rank = 0};
    request.step = 1;
    request.entries.push_back(Weighted("w", Full({2}, 8), 3));
    return connection().Call(std::move(request), CallOptions());
  };
  ASSERT_OK(push(1));
  ASSERT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasVersion(2)));

  ASSERT_OK(sync.SetRule("sgd"));

  ASSERT_OK_AND_ASSIGN(const PushReply reply, push(2));
  EXPECT_TRUE(reply.results[0].repeated);
}

TEST_P(RoundSumContractTest, RoundOfWeightsAndRowsFailsAndCountsNothing) {
  const Caller sync = NewSyncNamespace(2, "average(rescale_grad=0.5)");
  ASSERT_OK(sync.Init("w", Full({2, 3}, 0)));
  ASSERT_OK(sync.As(0).PushMany({Weighted("w", Full({2, 3}, 8), 3)}, 1));

  ASSERT_OK_AND_ASSIGN(const RefPtr<const RowIds> rows,
                       RowIds::Create(Vector({1}, DType::kI64)));
  ASSERT_OK(sync.As(1).PushRows(
      {{.key = "w", .tensor = Full({1, 3}, 8), .rows = rows}}, 1));

  EXPECT_THAT(
      sync.As(0).Pull("w"),
      StatusIs(StatusCode::kAborted, HasSubstr("others tensors with weights")));

  for (Step step = 1; step <= 2; ++step) {
    const double heavy = step == 1 ? 8 : 1;
    ASSERT_OK(
        sync.As(0).PushMany({Weighted("w", Full({2, 3}, heavy), 3)}, step));
    ASSERT_OK(sync.As(1).PushMany({Weighted("w", Full({2, 3}, 4), 1)}, step));
  }
  EXPECT_THAT(sync.As(1).Pull("w"),
              IsOkAndHolds(HasTensor(IsFilledWith((7 + 1.75) / 2))));
}

}  // namespace weight_contract
}  // namespace tensorkv::testing
