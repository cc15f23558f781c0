#include "service/store/byte_budget.h"

#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

RefPtr<ByteBudget> Budget(uint64_t limit, RefPtr<ByteBudget> parent = nullptr) {
  return MakeRefCounted<ByteBudget>("namespace \"n\"", limit,
                                    std::move(parent));
}

TEST(ByteBudgetTest, TakesExactlyItsLimit) {
  const auto budget = Budget(100);

  EXPECT_OK(budget->Reserve(60));
  EXPECT_OK(budget->Reserve(40));

  EXPECT_EQ(budget->used_bytes(), 100u);
  EXPECT_THAT(budget->Reserve(1),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(ByteBudgetTest, ErrorNamesBudgetLimitUseAndRequest) {
  const auto budget = Budget(100);
  ASSERT_OK(budget->Reserve(60));

  EXPECT_THAT(
      budget->Reserve(50),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "namespace \"n\": expected at most 100 bytes in use, got 60 and "
               "50 more"));
}

TEST(ByteBudgetTest, LowerLimitKeepsWhatIsReservedAndGivesNoMore) {
  const auto budget = Budget(100);
  ASSERT_OK(budget->Reserve(60));

  budget->SetLimit(50);

  EXPECT_EQ(budget->used_bytes(), 60u);
  EXPECT_EQ(budget->available_bytes(), 0u);
  EXPECT_THAT(budget->Reserve(1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "namespace \"n\": expected at most 50 bytes in use, got "
                       "60 and 1 more"));
  budget->Release(20);
  EXPECT_OK(budget->Reserve(10));
  budget->SetLimit(200);
  EXPECT_OK(budget->Reserve(150));
}

TEST(ByteBudgetTest, HugeRequestDoesNotWrapAround) {
  const auto budget = Budget(100);
  ASSERT_OK(budget->Reserve(60));

  EXPECT_THAT(budget->Reserve(UINT64_MAX - 10),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(budget->used_bytes(), 60u);
}

TEST(ByteBudgetTest, RefusalByChildLeavesParentUntouched) {
  const auto parent = Budget(1000);
  const auto child = Budget(100, parent);

  EXPECT_FALSE(child->Reserve(101).ok());

  EXPECT_EQ(parent->used_bytes(), 0u);
}

TEST(ByteBudgetTest, ParentBoundsTheSumOfItsChildren) {
  const auto parent = Budget(100);
  const auto one = Budget(80, parent);
  const auto other = Budget(80, parent);
  ASSERT_OK(one->Reserve(70));

  EXPECT_FALSE(other->Reserve(40).ok());
  EXPECT_EQ(other->used_bytes(), 0u);
  one->Release(70);
  EXPECT_OK(other->Reserve(40));
}

TEST(ByteBudgetTest, CheckHeadroomTellsWhatReserveWouldAndReservesNothing) {
  const auto parent = Budget(100);
  const auto child = Budget(80, parent);
  ASSERT_OK(parent->Reserve(50));

  EXPECT_OK(child->CheckHeadroom(50));
  EXPECT_THAT(child->CheckHeadroom(51),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(child->CheckHeadroom(81),
              StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_EQ(child->used_bytes(), 0u);
  EXPECT_EQ(parent->used_bytes(), 50u);
}

TEST(ByteBudgetTest, SumOfBytesStopsAtTheLargestNumber) {
  EXPECT_EQ(SumOfBytes(1, 2), 3u);
  EXPECT_EQ(SumOfBytes(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(SumOfBytes(UINT64_MAX - 1, 2), UINT64_MAX);
}

TEST(BudgetAccountTest, TakesOverWithoutRoom) {
  const auto budget = Budget(100);
  BudgetAccount from(budget);
  BudgetAccount to(budget);
  ASSERT_OK(from.Reserve(100));

  to.TakeOver(from, 70);

  EXPECT_EQ(from.used_bytes(), 30u);
  EXPECT_EQ(to.used_bytes(), 70u);
  EXPECT_EQ(budget->used_bytes(), 100u);
  from.Release(30);
  to.Release(70);
}

TEST(ByteBudgetTest, ConcurrentReservationsNeverPassTheLimit) {
  const auto budget = Budget(1000);
  std::atomic<int> granted{0};

  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) granted += budget->Reserve(1).ok();
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(granted, 1000);
  EXPECT_EQ(budget->used_bytes(), 1000u);
}

TEST(ReservationTest, ReleasesWhenItGoes) {
  const auto account = MakeRefCounted<BudgetAccount>(Budget(100));

  {
    ASSERT_OK_AND_ASSIGN(Reservation held, Reservation::Create(account, 30));
    EXPECT_EQ(account->used_bytes(), 30u);
  }

  EXPECT_EQ(account->used_bytes(), 0u);
}

TEST(ReservationTest, SplitAndMergeKeepTheSum) {
  const auto account = MakeRefCounted<BudgetAccount>(Budget(100));
  ASSERT_OK_AND_ASSIGN(Reservation whole, Reservation::Create(account, 30));

  Reservation part = whole.Split(10);
  EXPECT_EQ(whole.bytes(), 20u);
  Reservation empty;
  empty.Merge(std::move(part));
  empty.Merge(std::move(whole));

  EXPECT_EQ(empty.bytes(), 30u);
  EXPECT_EQ(account->used_bytes(), 30u);
}

TEST(ReservationTest, HandedOverBytesStayReserved) {
  const auto account = MakeRefCounted<BudgetAccount>(Budget(100));

  {
    ASSERT_OK_AND_ASSIGN(Reservation held, Reservation::Create(account, 30));
    held.HandOver();
  }

  EXPECT_EQ(account->used_bytes(), 30u);
}

TEST(ReservationTest, BufferGivesHandedOverBytesBack) {
  const auto account = MakeRefCounted<BudgetAccount>(Budget(100));
  ASSERT_OK_AND_ASSIGN(Reservation held, Reservation::Create(account, 30));

  ASSERT_OK_AND_ASSIGN(RefPtr<Buffer> buffer,
                       HostBuffer::Allocate(30, held.HandOver()));
  EXPECT_EQ(account->used_bytes(), 30u);
  buffer = nullptr;

  EXPECT_EQ(account->used_bytes(), 0u);
}

TEST(LastingReservationTest, KeepsItsAccount) {
  const auto budget = Budget(100);
  auto account = MakeRefCounted<BudgetAccount>(budget);
  {
    const LastingReservation reservation(
        *Reservation::Create(account, /*bytes=*/10));
    account = nullptr;

    EXPECT_EQ(reservation.bytes(), 10u);
    EXPECT_EQ(budget->used_bytes(), 10u);
  }
  EXPECT_EQ(budget->used_bytes(), 0u);
}

}  // namespace
}  // namespace tensorkv
