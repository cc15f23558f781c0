#include "service/mirror/mirror_member.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/answer.h"
#include "base/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/mirror/delivered_ranges.h"
#include "tests/service/mirror/mirror_network.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Full;
using testing::MirrorNetwork;
using testing::StatusIs;

constexpr char kMemberSpace[] = "n";

// Ones, that the worker of `rank` has brought.
RoundToSum RoundOf(Step step, uint32_t rank, Version version_floor = 0,
                   const std::string& key = "k") {
  const Tensor ones = Full({4}, 1);
  return {.key = key,
          .step = step,
          .version = 3,
          .version_floor = version_floor,
          .dtype = DType::kF32,
          .num_elements = 4,
          .tensors = {{rank, DType::kF32, ones.data(), ones.buffer()}}};
}

RefPtr<BudgetAccount> NewAccount() {
  return MakeRefCounted<BudgetAccount>(
      MakeRefCounted<ByteBudget>("test", 1 << 20));
}

// Calls that are never answered.
class SilentPeer final : public UniformMirrorPeer<SilentPeer> {
 public:
  template <typename Request>
  void Send(const Request&, absl::Duration, MirrorCallback<Request> done) {
    if constexpr (std::is_same_v<Request, v1::AnnounceRoundsRequest>) {
      announced_.push_back(std::move(done));
    }
  }
  // Answers what was announced first, nevertheless.
  void Answer(v1::AnnounceRoundsResponse response) {
    auto done = std::move(announced_.front());
    announced_.erase(announced_.begin());
    std::move(done)(std::move(response));
  }
  // They keep the member, which keeps this.
  void Forget() { announced_.clear(); }

 private:
  std::vector<MirrorCallback<v1::AnnounceRoundsRequest>> announced_;
};

// An answer to Begin: that round does not wait, and the others do.
MATCHER_P(DoesNotWaitFor, place, "") {
  if (!arg.ok() || arg->outcomes_size() <= place) return false;
  for (int i = 0; i < arg->outcomes_size(); ++i) {
    const bool waits = arg->outcomes(i).state() != v1::RoundOutcome::FAILED;
    if (waits == (i == place)) return false;
  }
  return true;
}

// One of two servers, which the other one leads.
class MirrorMemberTest : public ::testing::Test {
 protected:
  MirrorMemberTest() {
    auto group = std::make_shared<MirrorGroup>();
    group->servers = {"s0", "s1"};
    group->peers = {peer_, peer_};
    other_ = group->leader();
    own_ = 1 - other_;
    group->own = own_;
    ranges_ = std::make_shared<DeliveredRanges>(group, &alarms_);
    member_ = std::make_shared<MirrorMember>(
        MirrorMember::Environment{.group = group,
                                  .transport = ranges_,
                                  .alarms = &alarms_,
                                  .backend = &backend_,
                                  .executor = &executor_,
                                  .counts = &counts_,
                                  .sums = sums_});
  }
  ~MirrorMemberTest() override { peer_->Forget(); }

  void Sum(Step step, const std::string& key = "k") {
    member_->Sum(kMemberSpace, NewAccount(), {RoundOf(step, own_, 0, key)},
                 [this](std::vector<SummedRound> ended) {
                   for (const SummedRound& each : ended) {
                     ended_.push_back(each.sum.status());
                   }
                 });
  }
  // Of the round that Sum gives, to which each server brings a tensor.
  v1::BeginSumsRequest BeginOf(Step step) const {
    v1::BeginSumsRequest begin;
    begin.set_attempt(7);
    begin.set_namespace_(kMemberSpace);
    AddRound("k", step, begin);
    return begin;
  }
  static void AddRound(const std::string& key, Step step,
                       v1::BeginSumsRequest& begin) {
    v1::RoundOfAll& round = *begin.add_rounds();
    round.set_key(key);
    round.set_step(step);
    round.set_version(3);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      v1::ContributedTensor& tensor = *round.add_members()->add_tensors();
      tensor.set_rank(rank);
      tensor.set_dtype(v1::DTYPE_F32);
    }
  }
  // The sums are made by the server at place 0.
  absl::Status Deliver() {
    v1::DeliverRangesRequest message;
    message.mutable_from()->set_place(other_);
    message.set_attempt(7);
    message.set_phase(own_ == 0 ? 0 : 1);
    message.add_parts()->set_data(std::string(16, '\0'));
    return ranges_->Receive(message);
  }

  FakeAlarms alarms_;
  CpuBackend backend_{/*num_threads=*/1};
  MirrorCounts counts_;
  Executor executor_;
  const std::shared_ptr<MirrorSums> sums_ = std::make_shared<MirrorSums>();
  const std::shared_ptr<SilentPeer> peer_ = std::make_shared<SilentPeer>();
  uint32_t own_ = 0;
  uint32_t other_ = 0;
  std::shared_ptr<DeliveredRanges> ranges_;
  std::shared_ptr<MirrorMember> member_;
  std::vector<absl::Status> ended_;
};

TEST_F(MirrorMemberTest, BeginsOnlyWhatItsWorkersHaveBrought) {
  Sum(1);
  v1::BeginSumsRequest dtype = BeginOf(1);
  dtype.mutable_rounds(0)->mutable_members(own_)->mutable_tensors(0)->set_dtype(
      v1::DTYPE_F64);
  v1::BeginSumsRequest others_dtype = BeginOf(1);
  others_dtype.mutable_rounds(0)
      ->mutable_members(other_)
      ->mutable_tensors(0)
      ->set_dtype(v1::DTYPE_I32);
  v1::BeginSumsRequest rank = BeginOf(1);
  rank.mutable_rounds(0)->mutable_members(own_)->mutable_tensors(0)->set_rank(
      5);
  v1::BeginSumsRequest others_weight = BeginOf(1);
  others_weight.mutable_rounds(0)
      ->mutable_members(other_)
      ->mutable_tensors(0)
      ->set_weight(std::numeric_limits<double>::infinity());
  v1::BeginSumsRequest version = BeginOf(1);
  version.mutable_rounds(0)->set_version(4);

  EXPECT_THAT(member_->Begin(dtype),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(member_->Begin(others_dtype),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(member_->Begin(others_weight),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(member_->Begin(rank),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(member_->Begin(version), DoesNotWaitFor(0));
  EXPECT_THAT(member_->Begin({}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(member_->Begin(BeginOf(1)));
}

// Numbers of attempts of different leaders say nothing of their order.
TEST_F(MirrorMemberTest, FailedAttemptDropsTheSumOfAFormerLeader) {
  Sum(1);
  sums_->Keep({kMemberSpace, "k"}, {.attempt = 70, .step = 1, .version = 3});
  v1::AnnounceRoundsResponse failed;
  v1::RoundOutcome& outcome = *failed.add_outcomes();
  outcome.set_state(v1::RoundOutcome::FAILED);
  outcome.set_attempt(7);

  peer_->Answer(failed);

  EXPECT_EQ(ended_.size(), 1u);
  EXPECT_FALSE(sums_->Has({kMemberSpace, "k"}));
}

TEST_F(MirrorMemberTest, BeginsAnAttemptOnce) {
  Sum(1);
  ASSERT_OK(member_->Begin(BeginOf(1)));

  EXPECT_THAT(member_->Begin(BeginOf(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition));

  EXPECT_OK(Deliver());
}

TEST_F(MirrorMemberTest, NamespaceThatIsForgottenHasNoRounds) {
  Sum(1);
  ASSERT_OK(member_->Begin(BeginOf(1)));

  member_->Forget(kMemberSpace);

  EXPECT_THAT(ended_,
              ::testing::ElementsAre(StatusIs(absl::StatusCode::kAborted)));
  EXPECT_THAT(Deliver(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(member_->Begin(BeginOf(1)), DoesNotWaitFor(0));
}

TEST_F(MirrorMemberTest, KeyThatIsRemovedHasNoRound) {
  Sum(1);
  ASSERT_OK(member_->Begin(BeginOf(1)));

  member_->Remove(kMemberSpace, "k", 3);

  EXPECT_THAT(ended_,
              ::testing::ElementsAre(StatusIs(absl::StatusCode::kAborted)));
  EXPECT_THAT(Deliver(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

// It was created again before the exchange was told that the former had gone.
TEST_F(MirrorMemberTest, RoundOfALaterVersionIsNotRemoved) {
  Sum(1);

  member_->Remove(kMemberSpace, "k", 2);

  EXPECT_THAT(ended_, ::testing::IsEmpty());
  EXPECT_OK(member_->Begin(BeginOf(1)));
}

TEST_F(MirrorMemberTest, AttemptGoesOnWithoutAKeyThatIsRemoved) {
  Sum(1);
  Sum(1, "other");
  v1::BeginSumsRequest begin = BeginOf(1);
  AddRound("other", 1, begin);
  ASSERT_OK(member_->Begin(begin));

  member_->Remove(kMemberSpace, "k", 3);

  EXPECT_OK(Deliver());
  EXPECT_THAT(ended_,
              ::testing::ElementsAre(StatusIs(absl::StatusCode::kAborted)));
  member_->Remove(kMemberSpace, "other", 3);
  EXPECT_THAT(Deliver(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(MirrorMemberTest, NamesTheRoundsThatDoNotWaitAndBeginsNone) {
  Sum(1);
  v1::BeginSumsRequest begin = BeginOf(1);
  AddRound("other", 1, begin);

  EXPECT_THAT(member_->Begin(begin), DoesNotWaitFor(1));

  EXPECT_THAT(Deliver(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(MirrorMemberTest, LaterRoundOfAKeyEndsTheOneThatWaits) {
  Sum(1);
  ASSERT_OK(member_->Begin(BeginOf(1)));

  Sum(2);

  EXPECT_THAT(ended_,
              ::testing::ElementsAre(StatusIs(absl::StatusCode::kAborted)));
  EXPECT_THAT(Deliver(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(member_->Begin(BeginOf(2)));
}

TEST_F(MirrorMemberTest, TensorsOfARoundAreGoneOnceItsEndIsTold) {
  const RefPtr<BudgetAccount> account = NewAccount();
  std::vector<RoundToSum> rounds = {RoundOf(1, own_),
                                    RoundOf(1, own_, 0, "other")};
  for (RoundToSum& round : rounds) {
    ContributedTensor& tensor = round.tensors[0];
    ASSERT_OK(account->Reserve(16));
    tensor.buffer = *HostBuffer::Allocate(16, account);
    tensor.data = tensor.buffer->data();
  }
  std::vector<uint64_t> used;
  member_->Sum(kMemberSpace, account, std::move(rounds),
               [&used, &account](const std::vector<SummedRound>&) {
                 used.push_back(account->used_bytes());
               });
  EXPECT_EQ(account->used_bytes(), 32u);

  v1::AnnounceRoundsResponse response;
  SetFailed(*response.add_outcomes(), absl::UnavailableError("lost"));
  response.add_outcomes()->set_state(v1::RoundOutcome::WAITING);
  peer_->Answer(std::move(response));
  member_->Remove(kMemberSpace, "other", 3);

  EXPECT_THAT(used, ::testing::ElementsAre(16u, 0u));
}

// What hears of the ends keeps the keys and the namespace, and the leader may
// take long to answer.
TEST_F(MirrorMemberTest, CallbackIsGoneOnceAllEndsAreTold) {
  auto hears = std::make_shared<bool>();
  const std::weak_ptr<bool> is_there = hears;
  member_->Sum(kMemberSpace, NewAccount(),
               {RoundOf(1, own_), RoundOf(1, own_, 0, "other")},
               [kept = std::move(hears)](const std::vector<SummedRound>&) {});

  member_->Remove(kMemberSpace, "k", 3);
  EXPECT_FALSE(is_there.expired());
  member_->Remove(kMemberSpace, "other", 3);

  EXPECT_TRUE(is_there.expired());
}

TEST(MirrorExchangeTest, SumHasTheHighestVersionFloorOfAllServers) {
  MirrorNetwork network(2);
  std::vector<Answer<Version>> floors(2);

  for (uint32_t i = 0; i < 2; ++i) {
    network.exchange(i)->Sum(
        kMemberSpace, NewAccount(),
        {RoundOf(1, i, /*version_floor=*/5 + 4 * i)},
        [floor = floors[i]](const std::vector<SummedRound>& summed) {
          ASSERT_OK(summed[0].sum);
          floor.Set(summed[0].sum->version_floor);
        });
  }

  EXPECT_EQ(floors[0].Wait(), 9u);
  EXPECT_EQ(floors[1].Wait(), 9u);
}

TEST(MirrorExchangeTest, CountsWhatWasExchanged) {
  MirrorNetwork network(2);
  std::vector<Answer<absl::Status>> ends(2);
  for (uint32_t i = 0; i < 2; ++i) {
    network.exchange(i)->Sum(kMemberSpace, NewAccount(), {RoundOf(1, i)},
                             [end = ends[i]](std::vector<SummedRound> summed) {
                               end.Set(summed[0].sum.status());
                             });
  }
  for (const Answer<absl::Status>& end : ends) ASSERT_OK(end.Wait());

  uint64_t sent = 0;
  uint64_t received = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    const MirrorCounts& counts = network.exchange(i)->counts();
    EXPECT_EQ(counts.rounds_summed, 1u);
    EXPECT_EQ(counts.attempts_whole, 1u);
    EXPECT_EQ(counts.rounds_failed + counts.attempts_failed, 0u);
    EXPECT_GT(counts.nanoseconds, 0u);
    sent += counts.sent_bytes;
    received += counts.received_bytes;
  }
  // One server sums all of so small a tensor, and sends the sum back.
  EXPECT_EQ(sent, 2 * 4 * sizeof(float));
  EXPECT_EQ(received, sent);
}

// Else the others would wait for a round that cannot come.
TEST(MirrorExchangeTest, KeyThatTheLeaderRemovesEndsItsRoundElsewhere) {
  MirrorNetwork network(2);
  const MirrorGroup group = {.servers = {"s0", "s1"}};
  const uint32_t leader = group.leader();
  const Answer<absl::Status> end;
  network.exchange(1 - leader)
      ->Sum(kMemberSpace, NewAccount(), {RoundOf(1, 1 - leader)},
            [end](std::vector<SummedRound> summed) {
              end.Set(summed[0].sum.status());
            });

  const absl::Time limit = absl::Now() + absl::Minutes(1);
  while (!end.HasArrived()) {
    ASSERT_LT(absl::Now(), limit);
    network.exchange(leader)->Remove(kMemberSpace, "k", 3);
  }

  EXPECT_THAT(end.Wait(), StatusIs(absl::StatusCode::kAborted));
}

// The round of "k" ends at the server that has no such key any more, or at
// both, and that of "other" is summed at both.
class KeyOfOneServerIsRemoved : public ::testing::Test {
 protected:
  // Has the server that does not lead remove "k".
  void Remove() { network_.exchange(other_)->Remove(kMemberSpace, "k", 3); }
  void Sum(uint32_t server) {
    network_.exchange(server)->Sum(
        kMemberSpace, NewAccount(),
        {RoundOf(1, server), RoundOf(1, server, 0, "other")},
        [this, server](const std::vector<SummedRound>& summed) {
          for (const SummedRound& each : summed) {
            ends_[server][each.place].Set(each.sum.status());
          }
        });
  }

  MirrorNetwork network_{2};
  const uint32_t leader_ = MirrorGroup{.servers = {"s0", "s1"}}.leader();
  const uint32_t other_ = 1 - leader_;
  Answer<absl::Status> ends_[2][2];
};

TEST_F(KeyOfOneServerIsRemoved, BeforeTheOthersHaveAnnounced) {
  Sum(other_);
  Remove();
  Sum(leader_);

  EXPECT_THAT(ends_[other_][0].Wait(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_FALSE(ends_[leader_][0].Wait().ok());
  EXPECT_OK(ends_[other_][1].Wait());
  EXPECT_OK(ends_[leader_][1].Wait());
}

TEST_F(KeyOfOneServerIsRemoved, WhileItsSumIsMade) {
  network_.SetFates([this](uint32_t, uint32_t to, const auto& request) {
    if (to == other_ && testing::As<v1::RunSumsRequest>(request)) Remove();
    return testing::Fate::kArrives;
  });
  Sum(other_);
  Sum(leader_);

  EXPECT_THAT(ends_[other_][0].Wait(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_OK(ends_[leader_][0].Wait());
  EXPECT_OK(ends_[other_][1].Wait());
  EXPECT_OK(ends_[leader_][1].Wait());
}

// Of many keys, whose names are as long as names may be.
TEST(MirrorExchangeTest, ManyRoundsAreAnnouncedInMessagesOfBoundedSize) {
  constexpr size_t kRounds = 5000;
  MirrorNetwork network(2);
  std::atomic<size_t> max_bytes = 0;
  network.SetFates([&](uint32_t, uint32_t, const auto& request) {
    max_bytes = std::max<size_t>(max_bytes, request.ByteSizeLong());
    return testing::Fate::kArrives;
  });
  const auto account = MakeRefCounted<BudgetAccount>(
      MakeRefCounted<ByteBudget>("test", 1 << 30));
  std::vector<Answer<bool>> all_ended(2);
  std::vector<std::atomic<size_t>> num_summed(kRounds);
  std::atomic<size_t> num_ended[2] = {};

  for (uint32_t i = 0; i < 2; ++i) {
    std::vector<RoundToSum> rounds(kRounds, RoundOf(1, i));
    for (size_t place = 0; place < kRounds; ++place) {
      rounds[place].key = absl::StrCat(place, std::string(1000, 'k'));
    }
    network.exchange(i)->Sum(kMemberSpace, account, std::move(rounds),
                             [&, i](const std::vector<SummedRound>& summed) {
                               for (const SummedRound& each : summed) {
                                 EXPECT_OK(each.sum);
                                 ++num_summed[each.place];
                               }
                               if ((num_ended[i] += summed.size()) == kRounds) {
                                 all_ended[i].Set(true);
                               }
                             });
  }

  EXPECT_TRUE(all_ended[0].Wait() && all_ended[1].Wait());
  for (const auto& num : num_summed) EXPECT_EQ(num, 2u);
  EXPECT_LE(max_bytes, size_t{4} << 20);
}

}  // namespace
}  // namespace tensorkv
