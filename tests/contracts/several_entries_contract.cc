// Several entries of one call for one key: they are summed before they count as
// one contribution.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compression/compressor.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace several_entries_contract {

// Lost beside 1 unless they are added to each other first.
constexpr double kLarge = 1e8;
constexpr int64_t kSize = 300;

// The aggregations that take several entries.
constexpr Aggregation kAdding[] = {Aggregation::kSum, Aggregation::kMean};

NamespaceConfig Sync(uint32_t num_workers,
                     Aggregation aggregation = Aggregation::kSum,
                     const char* rule = "assign") {
  return {.mode = Mode::kSync,
          .num_workers = num_workers,
          .rule = ParseRuleSpec(rule).value(),
          .aggregation = aggregation};
}

std::vector<PushEntry> LargeAndBack(DType dtype = DType::kF32) {
  return {{.key = "w", .tensor = Full({kSize}, kLarge, dtype)},
          {.key = "w", .tensor = Full({kSize}, -kLarge, dtype)}};
}

// All push, in both orders of arrival; the first brings what the round has ones
// of.
void ExpectOnes(const Caller& sync, const NamespaceConfig& config,
                const std::vector<PushEntry>& others) {
  const uint32_t num_workers = config.num_workers;
  const double first =
      config.aggregation == Aggregation::kMean ? num_workers : 1;
  for (Step step = 1; step <= 2; ++step) {
    for (uint32_t i = 0; i < num_workers; ++i) {
      const uint32_t rank = step == 1 ? i : num_workers - 1 - i;
      const Caller worker = sync.As(rank);
      ASSERT_OK(rank == 0
                    ? worker.PushMany(
                          {{.key = "w", .tensor = Full({kSize}, first)}}, step)
                    : worker.PushMany(others, step));
    }
    EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))))
        << "step " << step;
  }
}

TEST_P(RoundSumContractTest, EntriesOfACallAreOneContribution) {
  for (const Aggregation aggregation : kAdding) {
    for (const uint32_t num_workers : {2, 3, 20}) {
      const NamespaceConfig config = Sync(num_workers, aggregation);
      const Caller sync = NewNamespace("s", config);
      ASSERT_OK(sync.Init("w", Full({kSize}, 0)));

      ExpectOnes(sync, config, LargeAndBack());
      ASSERT_OK(sync.Drop());
    }
  }
}

TEST_P(RoundSumContractTest, EntriesOfShortFloatsAreSummedInF32) {
  for (const Aggregation aggregation : kAdding) {
    const NamespaceConfig config = Sync(3, aggregation);
    const Caller sync = NewNamespace("s", config);
    ASSERT_OK(sync.Init("w", Full({kSize}, 0, DType::kBF16)));

    ExpectOnes(sync, config, LargeAndBack(DType::kBF16));
    ASSERT_OK(sync.Drop());
  }
}

TEST_P(RoundSumContractTest, EncodedEntriesAreOneContribution) {
  Compressor compressor(
      {.rules = {{"", *Compression::Parse("2bit:1e8")}}, .min_bytes = 0});
  std::vector<PushEntry> encoded;
  for (PushEntry& entry : LargeAndBack()) {
    encoded.push_back(
        std::move(compressor.Compress(0, {std::move(entry)}).value()[0]));
  }
  for (const Aggregation aggregation : kAdding) {
    const NamespaceConfig config = Sync(3, aggregation);
    const Caller sync = NewNamespace("s", config);
    ASSERT_OK(sync.Init("w", Full({kSize}, 0)));

    ExpectOnes(sync, config, encoded);
    ASSERT_OK(sync.Drop());
  }
}

TEST_P(RoundSumContractTest, RowsOfACallAreOneContribution) {
  const auto ids = [](const std::vector<double>& rows) {
    return *RowIds::Create(Vector(rows, DType::kI64));
  };
  const std::vector<std::vector<PushEntry>> both = {
      // One list that names a row twice.
      {{.key = "w",
        .tensor = TensorOf({3, 2}, {kLarge, kLarge, 5, 5, -kLarge, -kLarge}),
        .rows = ids({1, 3, 1})}},
      // Two lists.
      {{.key = "w", .tensor = Full({1, 2}, kLarge), .rows = ids({1})},
       {.key = "w",
        .tensor = TensorOf({2, 2}, {-kLarge, -kLarge, 5, 5}),
        .rows = ids({1, 3})}}};
  for (const Aggregation aggregation : kAdding) {
    const double size = aggregation == Aggregation::kMean ? 2 : 1;
    for (const std::vector<PushEntry>& others : both) {
      const Caller sync = NewNamespace("s", Sync(2, aggregation, "accumulate"));
      ASSERT_OK(sync.Init("w", Full({4, 2}, 0)));
      ASSERT_OK(sync.As(1).PushRows(others, 1));
      ASSERT_OK(sync.As(0).PushRows(
          {{.key = "w", .tensor = Full({1, 2}, size), .rows = ids({1})}}, 1));

      EXPECT_THAT(sync.As(0).Pull("w"),
                  IsOkAndHolds(HasTensor(HasElements(std::vector<double>{
                      0, 0, 1, 1, 0, 0, 5 / size, 5 / size}))));
      ASSERT_OK(sync.Drop());
    }
  }
}

TEST_P(RoundSumContractTest, SumOfEntriesIsRescaledAsOneContribution) {
  NamespaceConfig config = Sync(4);
  config.quorum = 2;
  config.rescale_partial_rounds = true;
  const Caller sync = NewNamespace("s", config);
  ASSERT_OK(sync.Init("w", Full({kSize}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({kSize}, 1), 1));

  ASSERT_OK(sync.As(1).PushMany(LargeAndBack(), 1));

  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
}

}  // namespace several_entries_contract
}  // namespace tensorkv::testing
