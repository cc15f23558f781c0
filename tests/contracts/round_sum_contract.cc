// The sum of a round: the same bits whatever the order of arrival. And what may
// take its place.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

// Numbers of all sizes and signs, other ones for every rank: the bits of their
// f32 sum depend on its order.
Tensor OrderSensitive(uint32_t rank, int64_t num_elements, DType dtype) {
  std::mt19937 random(rank);
  std::vector<double> elements(num_elements);
  for (double& element : elements) {
    const int exponent = static_cast<int>(random() % 24);
    element = std::ldexp(static_cast<int32_t>(random()), exponent - 32);
  }
  return Vector(elements, dtype);
}

// Sums in f32, in rank order, and rounds once.
Tensor RankOrderSum(const std::vector<Tensor>& contributions) {
  std::vector<double> sum = ElementsOf(contributions[0]);
  for (size_t rank = 1; rank < contributions.size(); ++rank) {
    const std::vector<double> next = ElementsOf(contributions[rank]);
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = static_cast<float>(sum[i]) + static_cast<float>(next[i]);
    }
  }
  return Vector(sum, contributions[0].dtype());
}

// Lets the workers arrive in several orders; the sum has always the same bits.
void ExpectSumInRankOrder(const Caller& sync, uint32_t num_workers,
                          int64_t num_elements, DType dtype) {
  std::vector<Tensor> contributions;
  for (uint32_t rank = 0; rank < num_workers; ++rank) {
    contributions.push_back(OrderSensitive(rank, num_elements, dtype));
  }
  const std::string expected = BytesOf(RankOrderSum(contributions));
  std::vector<uint32_t> arrival(num_workers);
  std::iota(arrival.begin(), arrival.end(), 0);
  std::mt19937 random(7);

  ASSERT_OK(sync.Init("w", Full({num_elements}, 0, dtype)));
  for (Step step = 1; step <= 12; ++step) {
    for (uint32_t rank : arrival) {
      ASSERT_OK(sync.As(rank).Push("w", contributions[rank], step));
    }
    EXPECT_TRUE(BytesOf(sync.As(0).Pull("w")->tensor) == expected)
        << "arrival " << ::testing::PrintToString(arrival);
    if (step == 1) std::reverse(arrival.begin(), arrival.end());
    if (step > 1) std::shuffle(arrival.begin(), arrival.end(), random);
  }
}

TEST_P(RoundSumContractTest, SumHasTheSameBitsInEveryOrderOfArrival) {
  ExpectSumInRankOrder(NewSyncNamespace(5), 5, 100, DType::kF32);
}

TEST_P(RoundSumContractTest, SumOfManyWorkersHasTheSameBitsToo) {
  ExpectSumInRankOrder(NewSyncNamespace(40), 40, 1000, DType::kF32);
}

TEST_P(RoundSumContractTest, SumOfManySmallFloatsIsRoundedOnce) {
  ExpectSumInRankOrder(NewSyncNamespace(40), 40, 1000, DType::kBF16);
}

// One round of contributions to a key of four rows, in the order in which they
// come: tensors, rows of them and skips. Compares what it makes with a sum, or
// a weighted mean, in f64.
void ExpectRoundInOrderOfArrival(const Caller& sync, DType dtype, bool is_mean,
                                 Step step, std::mt19937& random) {
  constexpr int kRows = 4, kColumns = 3;
  std::vector<uint32_t> arrival(20);
  std::iota(arrival.begin(), arrival.end(), 0);
  std::shuffle(arrival.begin(), arrival.end(), random);
  std::vector<double> sum(kRows * kColumns), magnitude(kRows * kColumns);
  double total = 0;
  for (const uint32_t rank : arrival) {
    if (rank == 7) {
      ASSERT_OK(sync.As(rank).Skip("w", step));
      continue;
    }
    const double weight = is_mean ? 0.25 * (1 + random() % 9) : 1;
    const bool has_rows = rank % 3 == 0;
    const int first = has_rows ? static_cast<int>(random() % 3) : 0;
    const int num_rows = has_rows ? 2 : kRows;
    std::vector<double> elements(num_rows * kColumns);
    for (size_t i = 0; i < elements.size(); ++i) {
      elements[i] = static_cast<int>(random() % 2001) - 1000;
      sum[first * kColumns + i] += weight * elements[i];
      magnitude[first * kColumns + i] += weight * std::abs(elements[i]);
    }
    total += weight;
    PushEntry entry = {
        .key = "w",
        .tensor = *Tensor::CopyOf(dtype, {num_rows, kColumns},
                                  Vector(elements, dtype).data()),
        .weight = weight};
    if (has_rows) {
      entry.rows =
          *RowIds::Create(Vector({1.0 * first, first + 1.0}, DType::kI64));
      ASSERT_OK(sync.As(rank).PushRows({entry}, step));
    } else {
      ASSERT_OK(sync.As(rank).PushMany({entry}, step));
    }
  }
  const double epsilon = !IsFloat(dtype)         ? 0
                         : dtype == DType::kBF16 ? 1.0 / 128
                                                 : 1e-6;
  const std::vector<double> actual = ElementsOf(sync.As(0).Pull("w")->tensor);
  for (size_t i = 0; i < sum.size(); ++i) {
    double expected = is_mean ? sum[i] / total : sum[i];
    if (!IsFloat(dtype)) expected = std::nearbyint(expected);
    const double scale = is_mean ? magnitude[i] / total : magnitude[i];
    EXPECT_NEAR(actual[i], expected, epsilon * scale) << i;
  }
}

TEST_P(RoundSumContractTest, RoundsInTheOrderOfArrivalHaveTheSameSums) {
  std::mt19937 random(11);
  int number = 0;
  for (const bool is_mean : {false, true}) {
    for (const DType dtype :
         {DType::kF32, DType::kBF16, DType::kF64, DType::kI32}) {
      SCOPED_TRACE(absl::StrCat(NameOf(dtype), is_mean ? " mean" : " sum"));
      const Caller sync = NewNamespace(
          absl::StrCat("n", number++),
          {.mode = Mode::kSync,
           .num_workers = 20,
           .aggregation = is_mean ? Aggregation::kMean : Aggregation::kSum,
           .sum_order = SumOrder::kArrival});
      ASSERT_OK(sync.Init("w", Full({4, 3}, 0, dtype)));
      for (Step step = 1; step <= 4; ++step) {
        ExpectRoundInOrderOfArrival(sync, dtype, is_mean, step, random);
      }
    }
  }
}

NamespaceConfig Averaged(Aggregation aggregation, uint32_t num_workers,
                         double trim_fraction = 0) {
  return {.mode = Mode::kSync,
          .num_workers = num_workers,
          .aggregation = aggregation,
          .trim_fraction = trim_fraction};
}

TEST_P(RoundSumContractTest, RoundsHaveTheAggregationOfTheirNamespace) {
  const struct {
    NamespaceConfig config;
    std::vector<double> contributions;
    double expected;
  } kRows[] = {
      {Averaged(Aggregation::kMedian, 5), {1, 900, 3, -700, 2}, 2},
      {Averaged(Aggregation::kMedian, 4), {1, 900, 3, 2}, 2.5},
      {Averaged(Aggregation::kMedian, 3), {4, NAN, -INFINITY}, 4},
      {Averaged(Aggregation::kMedian, 1), {7}, 7},
      {Averaged(Aggregation::kTrimmedMean, 5), {1, 2, 3, 4, 10}, 4},
      {Averaged(Aggregation::kTrimmedMean, 5, 0.2), {1, 900, 3, -700, 5}, 3},
      {Averaged(Aggregation::kTrimmedMean, 5, 0.4), {1, 900, 3, -700, 2}, 2},
      // So many that partial sums would be made; 0.29 of 100 are 29.
      {Averaged(Aggregation::kTrimmedMean, 100, 0.29),
       [] {
         std::vector<double> numbers(100, 1e30);
         std::fill_n(numbers.begin() + 29, 42, 0.25);
         std::fill_n(numbers.begin() + 71, 29, -1e30);
         return numbers;
       }(),
       0.25}};
  int number = 0;
  for (const auto& [config, contributions, expected] : kRows) {
    const Caller sync = NewNamespace("n" + std::to_string(number++), config);
    ASSERT_OK(sync.Init("w", Full({3}, 0)));
    for (uint32_t rank = contributions.size(); rank-- > 0;) {
      const DType dtype = rank % 2 == 0 ? DType::kF32 : DType::kF64;
      ASSERT_OK(
          sync.As(rank).Push("w", Full({3}, contributions[rank], dtype), 1));
    }
    EXPECT_THAT(sync.As(0).Pull("w"),
                IsOkAndHolds(HasTensor(IsFilledWith(expected))))
        << number;
    const NamespaceConfig described = ConfigOf(*sync.Describe());
    EXPECT_EQ(described.aggregation, config.aggregation);
    EXPECT_EQ(described.trim_fraction, config.trim_fraction);
  }
}

// A skipped contribution is not counted as a zero.
TEST_P(RoundSumContractTest, SkippedContributionsAreNotAveraged) {
  NamespaceConfig config = Averaged(Aggregation::kMedian, 4);
  config.gradient_guard.on_non_finite = OnNonFinite::kSkip;
  const Caller sync = NewNamespace("n", config);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));

  ASSERT_OK(sync.As(0).Push("w", Full({2}, 5), 1));
  ASSERT_OK(sync.As(1).Skip("w", 1));
  ASSERT_OK(sync.As(2).Push("w", Full({2}, NAN), 1));
  ASSERT_OK(sync.As(3).Push("w", Full({2}, 7), 1));

  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(6))));
}

TEST_P(RoundSumContractTest, RoundsOfAQuorumAverageThoseThatCame) {
  NamespaceConfig config = Averaged(Aggregation::kMedian, 4);
  config.quorum = 3;
  config.quorum_grace = absl::Milliseconds(50);
  const Caller sync = NewNamespace("n", config);
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({2}, 1), 1));
  ASSERT_OK(sync.As(2).Push("w", Full({2}, 900), 1));

  EXPECT_THAT(sync.As(3).PushPull("w", Full({2}, 2), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

TEST_P(RoundSumContractTest, WhatCannotBeAveragedIsRefused) {
  const auto is_refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    ::testing::HasSubstr(why));
  };
  const Caller bad = store_.In("bad");
  NamespaceConfig config = Averaged(Aggregation::kMedian, 2);
  config.rescale_partial_rounds = true;
  EXPECT_THAT(bad.Create(config), is_refused("rescale_partial_rounds"));
  EXPECT_THAT(bad.Create({.aggregation = Aggregation::kMedian}),
              is_refused("mode async"));
  EXPECT_THAT(bad.Create(Averaged(Aggregation::kMedian, 2, 0.25)),
              is_refused("trim_fraction"));
  EXPECT_THAT(bad.Create(Averaged(Aggregation::kMedian, 129)),
              is_refused("at most 128 workers, got 129"));
  config = Averaged(Aggregation::kMedian, 2);
  config.sum_order = SumOrder::kArrival;
  EXPECT_THAT(bad.Create(config), is_refused("sum_order"));
  EXPECT_THAT(bad.Create({.sum_order = SumOrder::kArrival}),
              is_refused("sum_order: expected none in a namespace of mode "));
  config = Averaged(Aggregation::kTrimmedMean, 2);
  config.max_workers = 129;
  EXPECT_THAT(bad.Create(config), is_refused("at most 128 workers, got 129"));
  for (const double fraction : {-0.1, 0.5, double{NAN}}) {
    EXPECT_THAT(bad.Create(Averaged(Aggregation::kTrimmedMean, 2, fraction)),
                is_refused("below 0.5"));
  }

  const Caller sync = NewNamespace("n", Averaged(Aggregation::kTrimmedMean, 1));
  ASSERT_OK(sync.Init("w", Full({2}, 0)));
  EXPECT_THAT(sync.Init("i", Full({2}, 0, DType::kI32)),
              is_refused("expected a float dtype"));
  EXPECT_THAT(sync.As(0).PushMany({{.key = "w", .tensor = Full({2}, 1)},
                                   {.key = "w", .tensor = Full({2}, 1)}},
                                  1),
              is_refused("two entries"));
  EXPECT_THAT(sync.As(0).PushRows(
                  {{.key = "w",
                    .tensor = Full({1}, 1),
                    .rows = *RowIds::Create(Full({1}, 0, DType::kI64))}},
                  1),
              is_refused("got rows"));
  EXPECT_THAT(sync.As(0).PushPull("w", Full({2}, 4), 1),
              IsOkAndHolds(HasTensor(IsFilledWith(4))));
}

}  // namespace
}  // namespace tensorkv::testing
