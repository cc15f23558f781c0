// Means of contributions, and what weights make of them: before any rule,
// against means in f64.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/compression/compressor.h"
#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace weight_contract {

using ::absl::StatusCode;
using ::testing::HasSubstr;

constexpr int kSize = 300;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

PushEntry Weighted(const std::string& key, Tensor tensor, double weight) {
  return {.key = key, .tensor = std::move(tensor), .weight = weight};
}

RefPtr<const RowIds> Rows(const std::vector<double>& ids) {
  return *RowIds::Create(Vector(ids, DType::kI64));
}

// A PushRows entry of rows of two elements, each of which is `element`.
PushEntry WeightedRows(const std::vector<double>& ids, double element,
                       double weight) {
  return {.key = "w",
          .tensor = Full({static_cast<int64_t>(ids.size()), 2}, element),
          .weight = weight,
          .rows = Rows(ids)};
}

NamespaceConfig MeanOf(uint32_t num_workers, absl::string_view rule = "assign",
                       Mode mode = Mode::kSync) {
  return {.mode = mode,
          .num_workers = num_workers,
          .rule = *ParseRuleSpec(rule),
          .aggregation = Aggregation::kMean};
}

// The weighted mean of all that was added, element by element.
class Mean {
 public:
  void Add(const std::vector<double>& elements, double weight) {
    for (int i = 0; i < kSize; ++i) sums_[i] += weight * elements[i];
    total_ += weight;
  }

  std::vector<double> elements() const {
    std::vector<double> elements = sums_;
    for (double& element : elements) element /= total_;
    return elements;
  }

  void ExpectNear(const Tensor& actual, double tolerance) const {
    const std::vector<double> expected = elements();
    const std::vector<double> elements = ElementsOf(actual);
    for (int i = 0; i < kSize; ++i) {
      EXPECT_NEAR(elements[i], expected[i], tolerance) << i;
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

double WeightOf(std::mt19937& random) {
  const double weights[] = {1, 1, 0.25, 3, 60000, 1e-3};
  return weights[random() % std::size(weights)];
}

// Pushes one contribution of each rank to "w", in any order.
void PushAll(const Caller& sync, const std::vector<PushEntry>& by_rank,
             Step step, std::mt19937& random) {
  std::vector<uint32_t> ranks(by_rank.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  for (const uint32_t rank : ranks) {
    ASSERT_OK(sync.As(rank).PushMany({by_rank[rank]}, step));
  }
}

// The rule gets what it would get of a single worker that brings the mean.
TEST_P(RoundSumContractTest, EveryRuleRunsOnTheMean) {
  constexpr uint32_t kWorkers = 5;
  std::mt19937 random(1);
  for (const char* rule :
       {"assign",
        "accumulate(scale=2)",
        "average",
        "test",
        "sgd",
        "sgd(momentum=0.9)",
        "nag",
        "diloco",
        "adam",
        "amsgrad",
        "adamw",
        "adamax",
        "nadam",
        "radam",
        "adabelief",
        "yogi",
        "adagrad",
        "rmsprop",
        "rmsprop(centered=1)",
        "adadelta",
        "ftrl",
        "ftml",
        "signum",
        "signsgd",
        "sgld",
        "dcasgd",
        "lion",
        "groupadagrad",
        "adafactor",
        "lars",
        "lamb",
        "lans",
        "expression: state m; m = 0.5 * m + grad; stored -= m"}) {
    const std::string name = absl::StrCat("n", random() % 100'000'000);
    const Caller sync = NewNamespace(name, MeanOf(kWorkers, rule));
    const Caller oracle = NewNamespace(
        absl::StrCat(name, "f64"),
        {.mode = Mode::kSync, .num_workers = 1, .rule = *ParseRuleSpec(rule)});
    const Tensor first = Vector(Elements(random));
    ASSERT_OK(sync.Init("w", first));
    ASSERT_OK(oracle.Init("w", first));
    for (Step step = 1; step <= 3; ++step) {
      Mean mean;
      std::vector<PushEntry> by_rank;
      for (uint32_t rank = 0; rank < kWorkers; ++rank) {
        const std::vector<double> elements = Elements(random);
        const double weight = WeightOf(random);
        mean.Add(elements, weight);
        by_rank.push_back(Weighted("w", Vector(elements), weight));
      }
      PushAll(sync, by_rank, step, random);
      ASSERT_OK(
          oracle.As(0).Push("w", Vector(mean.elements(), DType::kF64), step));
    }
    const std::vector<double> actual = ElementsOf(sync.As(0).Pull("w")->tensor);
    const std::vector<double> expected =
        ElementsOf(oracle.As(0).Pull("w")->tensor);
    int num_far = 0;
    for (int i = 0; i < kSize; ++i) {
      num_far += !(std::abs(actual[i] - expected[i]) <= 1e-4);
    }
    // A mean near 0 may have another sign, of which some rules make much.
    EXPECT_LE(num_far, 1) << rule;
  }
}

// Some of many contributions are added up before their round ends.
TEST_P(RoundSumContractTest, MeansHaveTheSameBitsInEveryOrderOfArrival) {
  for (const auto& [num_workers, dtype, tolerance] :
       {std::tuple(4u, DType::kF32, 1e-5),
        {32u, DType::kF32, 1e-5},
        {32u, DType::kBF16, 1e-2},
        {16u, DType::kF64, 1e-13}}) {
    std::mt19937 random(num_workers);
    const Caller sync = NewNamespace(absl::StrCat(NameOf(dtype), num_workers),
                                     MeanOf(num_workers));
    ASSERT_OK(sync.Init("w", Full({kSize}, 0, dtype)));
    Mean mean;
    std::vector<PushEntry> by_rank;
    for (uint32_t rank = 0; rank < num_workers; ++rank) {
      const std::vector<double> elements = Elements(random);
      const double weight = WeightOf(random);
      mean.Add(elements, weight);
      by_rank.push_back(Weighted("w", Vector(elements), weight));
    }
    std::optional<std::string> bytes;
    for (Step step = 1; step <= 4; ++step) {
      PushAll(sync, by_rank, step, random);
      const Tensor value = sync.As(0).Pull("w")->tensor;
      mean.ExpectNear(value, tolerance);
      if (!bytes) bytes = std::string(BytesOf(value));
      EXPECT_EQ(BytesOf(value), *bytes);
    }
  }
}

// What one worker brings; nothing: it skips.
using Brought = std::optional<std::pair<double, double>>;

TEST_P(RoundSumContractTest, RoundsHaveTheMeanOfWhatTheyHave) {
  constexpr Brought kSkip = std::nullopt;
  const auto of = [](double weight, double element) {
    return Brought(std::pair(weight, element));
  };
  const struct {
    DType dtype;
    std::vector<Brought> brought;
    std::optional<double> expected;  // nothing: the round is one of skips
  } kRounds[] = {
      {DType::kF32, {of(1, 2), of(1, 4)}, 3},
      {DType::kF32, {of(3, 8), of(1, 4)}, 7},
      {DType::kF32, {of(3, 8), kSkip, of(1, 4)}, 7},
      {DType::kF32, {of(0, kNaN), of(2, 5), of(0, INFINITY)}, 5},
      {DType::kF32, {of(1, 1), of(0, 9), of(1, 3)}, 2},
      {DType::kF32, {of(0, 9), of(0, kNaN)}, std::nullopt},
      {DType::kF32, {of(0, 9), kSkip}, std::nullopt},
      {DType::kF32, {of(1e-9, 8), of(1e-9, 4)}, 6},
      {DType::kF64, {of(1e9, 8), of(1e9, 4)}, 6},
      {DType::kF16, {of(60000, 2), of(20000, 6)}, 3},
      {DType::kI32, {of(1, 1), of(1, 2)}, 2},
      {DType::kI32, {of(1, 2), of(1, 3)}, 2},
      {DType::kI32, {of(1, -1), of(1, -2)}, -2},
      {DType::kI32,
       {of(1, -2147483648.0), of(3, -2147483648.0)},
       -2147483648.0},
      {DType::kI8, {of(1, 100), of(1, 120)}, 110},
      {DType::kU8, {of(1, 255), of(2, 252)}, 253},
      {DType::kU16, {of(1, 65535), of(1, 65533)}, 65534},
      {DType::kU32, {of(1, 4294967295.0), of(1, 4294967293.0)}, 4294967294.0},
      {DType::kI64, {of(0.5, 3), of(1.5, -5)}, -3},
      {DType::kBool, {of(1, 1), of(1, 0)}, 0},
      {DType::kBool, {of(2, 1), of(1, 0)}, 1},
  };
  int number = 0;
  for (const auto& [dtype, brought, expected] : kRounds) {
    SCOPED_TRACE(absl::StrCat("round ", number));
    const Caller sync =
        NewNamespace(absl::StrCat("n", number++), MeanOf(brought.size()));
    ASSERT_OK(sync.Init("w", Full({3}, 1, dtype)));
    for (uint32_t rank = 0; rank < brought.size(); ++rank) {
      const Caller worker = sync.As(rank);
      if (!brought[rank]) {
        ASSERT_OK(worker.Skip("w", 1));
        continue;
      }
      const auto& [weight, element] = *brought[rank];
      ASSERT_OK(worker.PushMany(
          {Weighted("w", Full({3}, element, dtype), weight)}, 1));
    }
    ASSERT_OK_AND_ASSIGN(const Value value, sync.As(0).Pull("w"));
    EXPECT_EQ(value.version, expected ? 2u : 1u);
    EXPECT_THAT(value.tensor, IsFilledWith(expected.value_or(1)));
  }
}

// Integers that no f64 has.
TEST_P(RoundSumContractTest, SingleContributionIsItsOwnMean) {
  const Caller sync = NewNamespace("n", MeanOf(2));
  const Tensor tensor = *Tensor::Filled(DType::kI64, {2}, 9007199254740992.0);
  Tensor large = tensor;
  large = *Tensor::CopyOf(DType::kI64, {2}, tensor.data());
  for (int64_t& each : large.mutable_elements<int64_t>()) ++each;
  ASSERT_OK(sync.Init("w", tensor));

  ASSERT_OK(sync.As(0).Skip("w", 1));
  ASSERT_OK(sync.As(1).PushMany({Weighted("w", large, 3)}, 1));

  EXPECT_EQ(BytesOf(sync.As(0).Pull("w")->tensor), BytesOf(large));
}

TEST_P(RoundSumContractTest, PartialRoundsHaveTheMeanOfThoseThere) {
  NamespaceConfig config = MeanOf(4);
  config.quorum = 2;
  config.quorum_grace = absl::Milliseconds(50);
  const Caller sync = NewNamespace("partial", config);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  ASSERT_OK(sync.As(3).PushMany({Weighted("w", Full({2}, 8), 3)}, 1));
  ASSERT_OK(sync.As(1).PushMany({Weighted("w", Full({2}, 4), 1)}, 1));

  EXPECT_THAT(sync.As(1).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

// Who brings what weighs nothing has contributed.
TEST_P(RoundSumContractTest, WeightOfNothingCountsForTheQuorum) {
  NamespaceConfig config = MeanOf(3);
  config.quorum = 2;
  config.quorum_grace = absl::Milliseconds(50);
  config.gradient_guard.on_non_finite = OnNonFinite::kRefuse;
  const Caller sync = NewNamespace("quorum", config);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  ASSERT_OK(sync.As(2).PushMany({Weighted("w", Full({2}, kNaN), 0)}, 1));
  ASSERT_OK(sync.As(1).PushMany({Weighted("w", Full({2}, 4), 5)}, 1));

  EXPECT_THAT(sync.As(2).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(4))));
}

// They are summed first.
TEST_P(RoundSumContractTest, EntriesOfACallWeighAsOneContribution) {
  const Caller sync = NewNamespace("n", MeanOf(2));
  for (const DType dtype : {DType::kF32, DType::kU16}) {
    const std::string key(NameOf(dtype));
    ASSERT_OK(sync.Init(key, Full({2}, 0, dtype)));

    ASSERT_OK(sync.As(1).PushMany({Weighted(key, Full({2}, 3, dtype), 1),
                                   Weighted(key, Full({2}, 1, dtype), 1)},
                                  1));
    ASSERT_OK(sync.As(0).PushMany({Weighted(key, Full({2}, 9, dtype), 2),
                                   Weighted(key, Full({2}, 1, dtype), 2)},
                                  1));

    EXPECT_THAT(sync.As(0).Pull(key), IsOkAndHolds(HasTensor(IsFilledWith(8))));
  }
}

// Lists of no rows are no more of them than they bring.
TEST_P(RoundSumContractTest, ListsOfACallWeighAsOneContribution) {
  PushEntry all = WeightedRows({}, 0, 3);
  all.update_all_rows = true;
  const struct {
    std::vector<PushEntry> lists;
    std::vector<double> expected;
  } kCalls[] = {{{WeightedRows({2}, 6, 3)}, {9, 9, 2.5, 2.5, 5, 5}},
                {{WeightedRows({}, 0, 3), WeightedRows({2}, 6, 3)},
                 {9, 9, 2.5, 2.5, 5, 5}},
                {{WeightedRows({}, 0, 3), WeightedRows({}, 0, 3)},
                 {9, 9, 2.5, 2.5, 0.5, 0.5}},
                {{all, all}, {0, 0, 2.5, 2.5, 0.5, 0.5}},
                {{all, WeightedRows({2, 2}, 3, 3)}, {0, 0, 2.5, 2.5, 5, 5}}};
  for (const auto& [lists, expected] : kCalls) {
    for (const uint32_t rank : {0, 1}) {
      const Caller sync = NewNamespace("n", MeanOf(2));
      ASSERT_OK(sync.Init("w", Full({3, 2}, 9)));

      ASSERT_OK(sync.As(rank).PushRows(lists, 1));
      ASSERT_OK(sync.As(1 - rank).PushRows(
          {WeightedRows({1}, 8, 1), WeightedRows({1, 2}, 2, 1)}, 1));

      EXPECT_THAT(sync.As(0).Pull("w"),
                  IsOkAndHolds(HasTensor(HasElements(expected))));
      ASSERT_OK(sync.Drop());
    }
  }
}

// Rows that a contribution does not name are zeros.
TEST_P(RoundSumContractTest, MeansOfRowsWeighAllContributions) {
  for (const uint32_t num_others : {0, 20}) {
    const Caller sync =
        NewNamespace(absl::StrCat("n", num_others), MeanOf(3 + num_others));
    ASSERT_OK(sync.Init("w", Full({4, 2}, 9)));
    for (uint32_t other = 0; other < num_others; ++other) {
      ASSERT_OK(
          sync.As(3 + other).PushRows({WeightedRows({1}, 0, 1.0 / 16)}, 1));
    }
    const double rest = num_others / 16.0;
    ASSERT_OK(sync.As(2).PushRows({WeightedRows({}, 0, 4 - rest)}, 1));
    ASSERT_OK(sync.As(1).PushRows({WeightedRows({1, 2, 1}, 2, 1)}, 1));
    ASSERT_OK(sync.As(0).PushRows({WeightedRows({1}, 8, 3)}, 1));

    EXPECT_THAT(sync.As(2).Pull("w"), IsOkAndHolds(HasTensor(HasElements(
                                          {9, 9, 3.5, 3.5, 0.25, 0.25, 9, 9}))))
        << num_others;
  }
}

TEST_P(RoundSumContractTest, MeansOfRowsAndTensorsUpdateAllRows) {
  const Caller sync = NewNamespace("n", MeanOf(3));
  ASSERT_OK(sync.InitMany({{"w", Full({2, 2}, 9)}}));
  PushEntry all = WeightedRows({1}, 8, 1);
  all.update_all_rows = true;

  ASSERT_OK(sync.As(0).PushMany({Weighted("w", Full({2, 2}, 4), 2)}, 1));
  ASSERT_OK(sync.As(1).PushRows({WeightedRows({0}, 8, 1)}, 1));
  ASSERT_OK(sync.As(2).PushRows({all}, 1));

  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(HasTensor(HasElements({4, 4, 4, 4}))));

  ASSERT_OK(sync.As(0).PushRows({all}, 2));
  ASSERT_OK(sync.As(1).PushRows({WeightedRows({1}, 4, 3)}, 2));
  ASSERT_OK(sync.As(2).Skip("w", 2));
  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(HasTensor(HasElements({0, 0, 5, 5}))));
}

// There is nothing that they could weigh.
TEST_P(RoundSumContractTest, RoundOfListsWithoutRowsIsOneOfSkips) {
  const Caller sync = NewNamespace("n", MeanOf(2));
  ASSERT_OK(sync.Init("w", Full({2, 2}, 9)));

  ASSERT_OK(sync.As(0).PushRows({WeightedRows({}, 0, 3)}, 1));
  ASSERT_OK(sync.As(1).PushRows({WeightedRows({}, 0, 1)}, 1));

  ASSERT_OK_AND_ASSIGN(const Value value, sync.As(0).Pull("w"));
  EXPECT_EQ(value.version, 1u);
  EXPECT_THAT(value.tensor, IsFilledWith(9));
}

TEST_P(RoundSumContractTest, MeansOfRowsOfIntegersAreRounded) {
  const Caller sync = NewNamespace("n", MeanOf(2));
  ASSERT_OK(sync.Init("w", Full({3, 2}, 9, DType::kI32)));
  const auto rows = [](const std::vector<double>& ids, double element) {
    PushEntry entry = WeightedRows(ids, 0, 1);
    entry.tensor =
        Full({static_cast<int64_t>(ids.size()), 2}, element, DType::kI32);
    return entry;
  };

  ASSERT_OK(sync.As(0).PushRows({rows({1, 2}, 4)}, 1));
  ASSERT_OK(sync.As(1).PushRows({rows({1}, 3)}, 1));

  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(HasTensor(HasElements({9, 9, 4, 4, 2, 2}))));
}

TEST_P(RoundSumContractTest, EncodedContributionsHaveWeights) {
  Compressor compressor(
      {.rules = {{"", *Compression::Parse("2bit:2")}}, .min_bytes = 0});
  const Caller sync = NewNamespace("n", MeanOf(10));
  ASSERT_OK(sync.Init("w", Full({kSize}, 0)));

  for (uint32_t rank = 0; rank < 10; ++rank) {
    std::vector<PushEntry> entries = {
        Weighted("w", Full({kSize}, rank == 0 ? -2 : 2), rank == 0 ? 7 : 1)};
    if (rank % 2 == 0) {
      entries = compressor.Compress(0, std::move(entries)).value();
    }
    ASSERT_OK(sync.As(rank).PushMany(std::move(entries), 1));
  }

  EXPECT_THAT(sync.As(0).Pull("w"),
              IsOkAndHolds(HasTensor(IsFilledWith(0.25))));
}

// Its answer may have been lost.
TEST_P(RoundSumContractTest, RepeatsOfWeightsCountOnce) {
  const Caller sync = NewNamespace("n", MeanOf(2));
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  const auto push = [&](uint64_t sequence, double weight) {
    PushRequest request = {.name_space = "n"};
    request.call_id = CallId{"a client", sequence};
    request.worker = Worker{.rank = 0};
    request.step = 1;
    request.entries.push_back(Weighted("w", Full({2}, 8), weight));
    return connection().Call(std::move(request), CallOptions());
  };
  ASSERT_OK(push(1, 3));

  ASSERT_OK_AND_ASSIGN(const PushReply reply, push(2, 0));

  EXPECT_TRUE(reply.results[0].repeated);
  ASSERT_OK(sync.As(1).PushMany({Weighted("w", Full({2}, 4), 1)}, 1));
  EXPECT_THAT(sync.As(1).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(7))));
}

// A call is a contribution of its own.
TEST_P(RuleContractTest, MeanOfASingleCallIsTheSumOfItsEntries) {
  const Caller async = NewNamespace("n", MeanOf(0, "accumulate", Mode::kAsync));
  ASSERT_OK(async.InitMany({{"one", Full({2}, 1)},
                            {"two", Full({2}, 1)},
                            {"none", Full({2}, 1)},
                            {"int", Full({2}, 1, DType::kI32)}}));

  ASSERT_OK(async.PushMany({Weighted("one", Full({2}, 0.1), 3),
                            Weighted("two", Full({2}, 8), 3),
                            Weighted("two", Full({2}, 4, DType::kF16), 3),
                            Weighted("none", Full({2}, kNaN), 0),
                            Weighted("int", Full({2}, 2, DType::kI32), 2),
                            Weighted("int", Full({2}, 5, DType::kI32), 2)}));

  EXPECT_THAT(async.Pull("one"), IsOkAndHolds(HasTensor(IsFilledWith(1.1F))));
  EXPECT_THAT(async.Pull("two"), IsOkAndHolds(HasTensor(IsFilledWith(13))));
  EXPECT_THAT(async.Pull("none"), IsOkAndHolds(HasVersion(1)));
  EXPECT_THAT(async.Pull("int"), IsOkAndHolds(HasTensor(IsFilledWith(8))));
}

TEST_P(RuleContractTest, MeanOfASingleCallIsTheSumOfItsRows) {
  const Caller async = NewNamespace("n", MeanOf(0, "assign", Mode::kAsync));
  ASSERT_OK(async.Init("w", Full({3, 2}, 9)));

  ASSERT_OK(
      async.PushRows({WeightedRows({1, 0}, 8, 3), WeightedRows({1}, 4, 3)}));
  EXPECT_THAT(async.Pull("w"),
              IsOkAndHolds(HasTensor(HasElements({8, 8, 12, 12, 9, 9}))));

  ASSERT_OK(async.PushRows({WeightedRows({}, 0, 3)}));
  EXPECT_THAT(async.Pull("w"), IsOkAndHolds(HasVersion(2)));
}

// All that the guard leaves is a list of no rows.
TEST_P(RuleContractTest, WhatTheGuardSkipsLeavesNoUpdateOfAMean) {
  NamespaceConfig config = MeanOf(0, "assign", Mode::kAsync);
  config.gradient_guard.on_non_finite = OnNonFinite::kSkip;
  const Caller async = NewNamespace("n", config);
  ASSERT_OK(async.Init("w", Full({3, 2}, 9)));

  ASSERT_OK(
      async.PushRows({WeightedRows({}, 0, 1), WeightedRows({1}, kNaN, 1)}));

  EXPECT_THAT(async.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(BoundedContractTest, MeanOfASingleCallIsTheSumOfItsEntries) {
  NamespaceConfig config = MeanOf(1, "assign", Mode::kBounded);
  const Caller bounded = NewNamespace("n", config);
  ASSERT_OK(bounded.Init("w", Full({2}, 1)));

  ASSERT_OK(bounded.As(0).PushMany(
      {Weighted("w", Full({2}, 8), 3), Weighted("w", Full({2}, 4), 3)}, 1));

  EXPECT_THAT(bounded.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(12))));
}

TEST_P(RuleContractTest, EntriesOfAKeyHaveOneWeightAllOrNothing) {
  for (const Mode mode : {Mode::kAsync, Mode::kSync}) {
    const Caller store =
        NewNamespace("n", MeanOf(mode == Mode::kSync ? 1 : 0, "assign", mode));
    ASSERT_OK(store.InitMany({{"v", Full({2}, 1)}, {"w", Full({2}, 1)}}));

    EXPECT_THAT(store.As(0).PushMany({Weighted("v", Full({2}, 9), 3),
                                      Weighted("w", Full({2}, 9), 2),
                                      {.key = "w", .skip = true},
                                      Weighted("w", Full({2}, 9), 0)},
                                     1),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("key \"w\": weight: expected one of a "
                                   "call's entries for a key, got 2 and 0")));

    EXPECT_THAT(store.Pull("v"), IsOkAndHolds(HasVersion(1)));
    ASSERT_OK(store.Drop());
  }
}

TEST_P(RuleContractTest, WrongWeightsAreRefusedAndNothingChanges) {
  const std::pair<Aggregation, std::vector<double>> kWrong[] = {
      {Aggregation::kSum, {0, 2, -1, kNaN}},
      {Aggregation::kMedian, {0, 2}},
      {Aggregation::kMean, {-1, kNaN, INFINITY, 0.9e-9, 1.1e9}}};
  int number = 0;
  for (const auto& [aggregation, weights] : kWrong) {
    NamespaceConfig config = MeanOf(1);
    config.aggregation = aggregation;
    const Caller sync = NewNamespace(absl::StrCat("n", number++), config);
    ASSERT_OK(sync.InitMany({{"v", Full({2}, 1)}, {"w", Full({2}, 1)}}));
    for (const double weight : weights) {
      EXPECT_THAT(
          sync.As(0).PushMany({Weighted("v", Full({2}, 9), 1),
                               Weighted("w", Full({2}, 9), weight)},
                              1),
          StatusIs(StatusCode::kInvalidArgument,
                   HasSubstr(aggregation == Aggregation::kMean
                                 ? "0, or a number from 1e-9 to 1e9, got"
                                 : "expected 1, as the namespace's")))
          << weight;
    }
    EXPECT_THAT(sync.Pull("v"), IsOkAndHolds(HasVersion(1)));
    EXPECT_OK(sync.As(0).PushMany({Weighted("w", Full({2}, 9), 1)}, 1));
  }
}

}  // namespace weight_contract
}  // namespace tensorkv::testing
