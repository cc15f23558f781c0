#include "service/rpc/tickets.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contract/reason.h"
#include "contract/retry_delay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace tickets_test {

using testing::HasReason;
using testing::StatusIs;
using testing::Vector;

constexpr absl::Duration kStreamTimeout = absl::Seconds(30);

class TicketsTest : public ::testing::Test {
 protected:
  // Returns the id of a ticket for `tensor_`.
  std::string Add(const std::string& caller = "alice") {
    auto held = tickets_.Add(caller, {.values = {{7, tensor_}}});
    EXPECT_OK(held);
    return std::get<PullReply>(**held).ticket->id;
  }
  absl::StatusOr<Tickets::TakenStripe> Take(const std::string& id,
                                            Stripe stripe = {}) {
    return tickets_.Take("alice", id, stripe);
  }
  // Returns whether nobody else holds the values.
  bool AreLetGo() const { return tensor_.buffer()->IsUnique(); }

  FakeAlarms alarms_;
  Tickets tickets_{kStreamTimeout, &alarms_};
  const Tensor tensor_ = Vector({1, 2, 3});
};

TEST_F(TicketsTest, TicketSaysHowMuchThereIs) {
  ASSERT_OK_AND_ASSIGN(
      const StripedCall::Reply held,
      tickets_.Add("alice", {.values = {{7, tensor_}, {8, Vector({1})}}}));

  EXPECT_EQ(std::get<PullReply>(*held).ticket->size_bytes, 16u);
}

TEST_F(TicketsTest, ValuesAreLetGoWhenAllStripesAreSent) {
  const std::string id = Add();
  {
    ASSERT_OK_AND_ASSIGN(Tickets::TakenStripe second, Take(id, {1, 2}));
    ASSERT_OK_AND_ASSIGN(Tickets::TakenStripe first, Take(id, {0, 2}));
    EXPECT_EQ(std::get<PullReply>(*first.reply()).values[0].version, 7u);
    second.SetSent();
    EXPECT_EQ(tickets_.num_open(), 1u);
    first.SetSent();
    EXPECT_EQ(tickets_.num_open(), 0u);
  }

  EXPECT_TRUE(AreLetGo());
  EXPECT_EQ(tickets_.num_expired(), 0u);
  EXPECT_THAT(Take(id), HasReason(Reason::kNoTicket));
}

TEST_F(TicketsTest, StripeComesOnce) {
  const std::string id = Add();
  ASSERT_OK_AND_ASSIGN(const Tickets::TakenStripe stripe, Take(id, {0, 2}));

  EXPECT_THAT(Take(id, {0, 2}), HasReason(Reason::kStripeExists));
  EXPECT_THAT(Take(id, {1, 3}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Take(id, {2, 2}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(Take(id, {1, 2}));
}

TEST_F(TicketsTest, StripeThatEndsEarlyEndsItsTicket) {
  const std::string id = Add();
  ASSERT_OK_AND_ASSIGN(Tickets::TakenStripe first, Take(id, {0, 3}));
  std::optional<Tickets::TakenStripe> second = *Take(id, {1, 3});

  second.reset();

  EXPECT_THAT(Take(id, {2, 3}), HasReason(Reason::kNoTicket));
  EXPECT_EQ(tickets_.num_open(), 0u);
  // What is being sent goes on.
  EXPECT_FALSE(AreLetGo());
  first.SetSent();
}

TEST_F(TicketsTest, OtherCallersHaveNoUseForIt) {
  const std::string id = Add();

  EXPECT_THAT(tickets_.Take("mallory", id, {}), HasReason(Reason::kNoTicket));
  EXPECT_THAT(Take("guess"), HasReason(Reason::kNoTicket));
  EXPECT_THAT(Take(""), HasReason(Reason::kNoTicket));
  EXPECT_OK(Take(id));
}

TEST_F(TicketsTest, IdsDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(Add());

  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(ids.begin()->size(), 16u);
}

TEST_F(TicketsTest, ExpireUnlessTheFirstStripeComesInTime) {
  const std::string id = Add();
  alarms_.Advance(Tickets::kTimeToTake - absl::Milliseconds(1));
  EXPECT_EQ(tickets_.num_open(), 1u);

  alarms_.Advance(absl::Milliseconds(1));

  EXPECT_THAT(Take(id), HasReason(Reason::kNoTicket));
  EXPECT_EQ(tickets_.num_expired(), 1u);
  EXPECT_TRUE(AreLetGo());
}

TEST_F(TicketsTest, ExpireUnlessAllStripesComeInTime) {
  const std::string id = Add();
  alarms_.Advance(Tickets::kTimeToTake / 2);
  ASSERT_OK_AND_ASSIGN(Tickets::TakenStripe stripe, Take(id, {0, 2}));
  alarms_.Advance(kStreamTimeout - absl::Milliseconds(1));
  EXPECT_EQ(tickets_.num_open(), 1u);

  alarms_.Advance(absl::Milliseconds(1));

  EXPECT_THAT(Take(id, {1, 2}), HasReason(Reason::kNoTicket));
  EXPECT_EQ(tickets_.num_expired(), 1u);
}

TEST_F(TicketsTest, DoNotExpireOnceAllStripesHaveCome) {
  ASSERT_OK_AND_ASSIGN(const Tickets::TakenStripe stripe, Take(Add()));

  alarms_.Advance(absl::Hours(1));

  EXPECT_EQ(tickets_.num_open(), 1u);
}

TEST_F(TicketsTest, AreCountedForEachCallerAndInAll) {
  std::string last;
  for (size_t i = 0; i < Tickets::kMostOfCaller; ++i) last = Add();
  const auto refused = tickets_.Add("alice", {.values = {{7, tensor_}}});
  EXPECT_THAT(refused, HasReason(Reason::kLimitReached));
  EXPECT_TRUE(RetryDelayOf(refused.status()).has_value());

  for (size_t i = 0; i < Tickets::kMostInAll - Tickets::kMostOfCaller; ++i) {
    Add("bob");
  }
  EXPECT_THAT(tickets_.Add("carol", {}), HasReason(Reason::kLimitReached));
  tickets_.End(last);
  EXPECT_OK(tickets_.Add("alice", {}));
}

// A stripe may be sent until the server has ended.
TEST(TicketsEndTest, MayGoBeforeTheirStripes) {
  FakeAlarms alarms;
  std::optional<Tickets> tickets(std::in_place, kStreamTimeout, &alarms);
  const auto held = tickets->Add("alice", {.values = {{7, Vector({1})}}});
  ASSERT_OK_AND_ASSIGN(
      Tickets::TakenStripe stripe,
      tickets->Take("alice", std::get<PullReply>(**held).ticket->id, {}));

  tickets.reset();
  stripe.SetSent();
}

}  // namespace tickets_test
}  // namespace tensorkv
