#include <cstdint>
#include <optional>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "tests/service/store/keyspace/rounds/contributions.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::GroupOf;
using ::tensorkv::testing::Of;
using ::tensorkv::testing::OnlyOf;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::ValuesOf;
using ::testing::ElementsAre;

class PartialSumTest : public ::testing::Test {
 protected:
  std::optional<ClosedRound> Add(uint32_t rank, double value) {
    return OnlyOf(rounds_.Add({rank}, 1, Of(value), {}));
  }
  std::optional<PartialSum> BeginPartialSum() {
    return rounds_.BeginPartialSum();
  }
  std::optional<ClosedRound> EndPartialSum(
      const std::optional<PartialSum>& partial,
      std::optional<Contribution> sum) {
    return OnlyOf(rounds_.EndPartialSum(*partial, sum));
  }
  void AddFirst(uint32_t num_ranks) {
    for (uint32_t rank = 0; rank < num_ranks; ++rank) Add(rank, rank);
  }

  const RefPtr<BudgetAccount> account_ =
      MakeRefCounted<BudgetAccount>(MakeRefCounted<ByteBudget>("b", 1 << 20));
  WorkerGroup group_{GroupOf(10)};
  SharedRounds shared_;
  RoundPolicy policy_{.workers = &group_, .shared = &shared_, .max_open = 2};
  Rounds rounds_{&policy_};
};

TEST_F(PartialSumTest, RoundThatIsCompleteWaitsForItsPartialSum) {
  AddFirst(8);
  const std::optional<PartialSum> partial = BeginPartialSum();
  EXPECT_FALSE(BeginPartialSum()) << "one at a time";
  EXPECT_FALSE(Add(8, 8));
  EXPECT_FALSE(Add(9, 9));

  const std::optional<ClosedRound> closed = EndPartialSum(partial, Of(100));

  ASSERT_TRUE(closed);
  EXPECT_THAT(ValuesOf(*closed), ::testing::ElementsAre(100, 8, 9));
}

TEST_F(PartialSumTest, SeveralTensorsOfAWorkerAreSummedOneWorkerAtATime) {
  for (const uint32_t rank : {1, 2}) {
    Contribution several = Of(rank);
    several.slots.push_back(several.slots[0]);
    several.needs_sum = true;
    rounds_.Add({rank}, 1, std::move(several), {});
  }

  const std::optional<PartialSum> partial = BeginPartialSum();

  ASSERT_TRUE(partial);
  EXPECT_EQ(partial->place, 1u);
  EXPECT_FALSE(BeginPartialSum());
}

TEST_F(PartialSumTest, RoundsCloseInTheirOrderThoughTheFirstIsBeingSummed) {
  AddFirst(8);
  const std::optional<PartialSum> partial = BeginPartialSum();
  for (uint32_t rank = 8; rank < 10; ++rank) Add(rank, rank);
  for (uint32_t rank = 0; rank < 10; ++rank) {
    EXPECT_TRUE(rounds_.Add({rank}, 2, Of(0), {}).empty());
  }

  std::optional<Contribution> sum = Of(100);
  const ClosedRounds closed = rounds_.EndPartialSum(*partial, sum);

  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].step, 1u);
  EXPECT_EQ(closed[1].step, 2u);
}

TEST_F(PartialSumTest, SumOfARoundThatHasFailedIsDropped) {
  AddFirst(8);
  const std::optional<PartialSum> partial = BeginPartialSum();
  rounds_.FailFrom(1, std::make_shared<RoundFailure>());
  AddFirst(9);

  std::optional<Contribution> sum = Of(100);
  EXPECT_TRUE(rounds_.EndPartialSum(*partial, sum).empty());

  EXPECT_TRUE(sum) << "it goes without the mutex";
  EXPECT_EQ(Add(9, 9)->slots.size(), 10u);
}

TEST_F(PartialSumTest, SummedWorkerHasContributed) {
  AddFirst(8);
  const std::optional<PartialSum> partial = BeginPartialSum();
  EndPartialSum(partial, Of(100));

  EXPECT_THAT(rounds_.Check("w", 1, {3}, 1).status(),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_TRUE(rounds_.Awaits(3, 1));
}

TEST_F(PartialSumTest, SummedContributionCostsNoMoreThanItsName) {
  for (uint32_t rank = 0; rank < 8; ++rank) {
    Contribution contribution = Of(rank);
    contribution.overhead =
        *Reservation::Create(account_, kContributionOverheadBytes);
    rounds_.Add({rank}, 1, std::move(contribution), {});
  }

  EndPartialSum(BeginPartialSum(), Of(100));

  EXPECT_EQ(account_->used_bytes(),
            kContributionOverheadBytes + 7 * kContributorBytes);
}

}  // namespace
}  // namespace tensorkv
