// A namespace that several servers hold: the bits of one server, and what
// becomes of rounds when servers do not reach each other.

#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "base/mutex.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contracts/caller.h"
#include "tests/service/mirror/mirror_network.h"
#include "tests/service/mirror/mirrored_servers.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/sanitizers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::As;
using testing::Background;
using testing::Caller;
using testing::ConfigOf;
using testing::FakeGpu;
using testing::Fate;
using testing::Full;
using testing::HasReason;
using ::testing::HasSubstr;
using testing::kSpace;
using testing::RunWorkers;
using testing::StatusIs;

class MirroredNamespaceTest : public testing::MirroredServersTest {
 protected:
  static uint32_t Leader() {
    const MirrorGroup group = {.servers = {"s0", "s1", "s2"}};
    return group.leader();
  }
  // All workers push a step, of which the outcome does not reach that server.
  void PushWhereOutcomesAre(Fate fate, uint32_t server) {
    network_->SetFates([=](uint32_t from, uint32_t, const auto& request) {
      const bool is_announced = As<v1::AnnounceRoundsRequest>(request);
      return from == server && is_announced ? fate : Fate::kArrives;
    });
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_OK(Worker(rank).Push("small", Full({7}, 1), 1));
    }
  }
};

TEST_F(MirroredNamespaceTest, HasTheBitsOfOneServerWhateverTheArrival) {
  Start();
  constexpr Step kSteps = testing::FewerIfSanitized(30);

  RunWorkers(Workers(), 1, kSteps);
  RunWorkers(WorkersOfOne(), 1, kSteps);

  ExpectSame();
  EXPECT_EQ(At(1).Pull("adam")->version, kSteps + 1);
}

TEST_F(MirroredNamespaceTest, HasTheSameBitsOnGpus) {
  FakeGpu gpu({.shuffle_seed = 1});
  FakeGpu other({.ordinal = 1, .shuffle_seed = 2});
  OpenGpus({&gpu, &other});
  Start();

  constexpr Step kSteps = testing::FewerIfSanitized(20);

  RunWorkers(Workers(), 1, kSteps);
  RunWorkers(WorkersOfOne(), 1, kSteps);

  ExpectSame();
  for (const auto& server : servers_) {
    const auto described = server->Call(testing::DescribeOf(kSpace), {});
    ASSERT_OK(described);
    EXPECT_EQ(described->status().memory().contributions(), 0u);  // sums, too
  }
  Close();
}

// There is room for a contribution on its way to its GPU, and not for the
// ranges and sums that servers send each other.
TEST_F(MirroredNamespaceTest, RoundWithoutRoomOnTheHostForItsSumFailsByName) {
  FakeGpu gpus[] = {FakeGpu(), FakeGpu({.ordinal = 1}),
                    FakeGpu({.ordinal = 2})};
  OpenGpus({&gpus[0], &gpus[1], &gpus[2]});
  host_bytes_ = 80'000;
  Start();
  const auto push = [&](const std::string& key, int64_t size, Step step) {
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_OK(Worker(rank).Push(key, Full({size}, 1), step));
    }
  };

  push("sgd", 12301, 1);

  for (uint32_t rank = 0; rank < kServers; ++rank) {
    EXPECT_THAT(Worker(rank).Pull("sgd"),
                AllOf(HasReason(Reason::kRoundFailed),
                      StatusIs(absl::StatusCode::kAborted,
                               HasSubstr("expected at most"))));
  }
  push("small", 7, 1);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Worker(rank).Pull("small"),
                testing::IsOkAndHolds(
                    testing::HasTensor(testing::IsFilledWith(1 + kWorkers))));
  }
  Close();
}

// As between servers of which one is of a version with another rule.
TEST_F(MirroredNamespaceTest, OnlyOneServerLeads) {
  Start();
  const uint32_t other = Leader() + 1;
  MirrorGroup group = {.servers = {"s0", "s1", "s2"}};
  const auto outcome_at = [&](uint32_t server, uint32_t from, auto request) {
    group.own = from;
    request = group.NewRequest<decltype(request)>();
    const Answer<absl::Status> answer;
    network_->exchange(server)->Handle(request, [answer](const auto& response) {
      answer.Set(response.status());
    });
    return answer.Wait();
  };
  const auto is_refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("server s0 to lead"));

  const v1::AnnounceRoundsRequest announce;
  EXPECT_THAT(outcome_at(other, Leader(), announce), is_refused);
  EXPECT_OK(outcome_at(Leader(), other, announce));
  EXPECT_THAT(outcome_at(Leader(), other, v1::BeginSumsRequest()), is_refused);
  EXPECT_THAT(outcome_at(Leader(), other, v1::RunSumsRequest()), is_refused);
}

TEST_F(MirroredNamespaceTest, RoundThatAllSkipClosesWithoutAnUpdate) {
  Start();
  ASSERT_OK(Worker(0).Skip("small", 1));
  ASSERT_OK(Worker(1).Skip("small", 1));
  ASSERT_OK(Worker(2).Skip("small", 1));

  Background pull([&] { return Worker(2).Pull("small"); });
  ASSERT_OK(Worker(3).Skip("small", 1));

  EXPECT_EQ(pull.Result()->version, 1u);
  ASSERT_OK(Worker(0).Pull("small"));
}

// The means are of floats and integers, plain and encoded, on hosts and GPUs.
TEST_F(MirroredNamespaceTest, MeansHaveTheBitsOfOneServer) {
  FakeGpu gpu({.shuffle_seed = 1});
  OpenGpus({&gpu});
  aggregation_ = Aggregation::kMean;
  Start();
  constexpr Step kSteps = testing::FewerIfSanitized(30);

  RunWorkers(Workers(), 1, kSteps, /*has_weights=*/true);
  RunWorkers(WorkersOfOne(), 1, kSteps, /*has_weights=*/true);

  ExpectSame();
  Close();
}

TEST_F(MirroredNamespaceTest, RoundNeedsTensorsOfSomeWorkersOnly) {
  Start();
  const Tensor ones = Full({7}, 1);
  ASSERT_OK(Worker(0).Skip("small", 1));
  ASSERT_OK(Worker(3).Skip("small", 1));
  ASSERT_OK(Worker(1).Push("small", ones, 1));
  ASSERT_OK(Worker(2).Skip("small", 1));

  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(
        Worker(rank).Pull("small"),
        testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(2))));
  }
}

TEST_F(MirroredNamespaceTest, RefusesWhatItCannotSumWithOthers) {
  Start();
  PushEntry rows = {.key = "small", .tensor = Full({1}, 1)};
  rows.rows = *RowIds::Create(Full({1}, 0, DType::kI64));

  EXPECT_THAT(Worker(0).PushRows({rows}, 1),
              StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(At(1).As(0).Push("small", Full({7}, 1), 1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("its own server")));
}

TEST_F(MirroredNamespaceTest, RefusesGroupsThatAreNotWholeSums) {
  Start();
  const Caller other = At(0).In("other");
  NamespaceConfig elastic = ConfigOf(kWorkers, true);
  elastic.max_workers = kWorkers + 1;
  NamespaceConfig quorum = ConfigOf(kWorkers, true);
  quorum.quorum = 2;
  NamespaceConfig async = {.mirrored = true};

  EXPECT_THAT(other.Create(elastic),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(other.Create(quorum),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(other.Create(async),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(other.Create(ConfigOf(kServers - 1, true)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(One().In("other").Create(ConfigOf(kWorkers, true)),
              StatusIs(absl::StatusCode::kUnimplemented));
}

// Whether a call is between a server and another one.
bool IsOf(uint32_t server, uint32_t from, uint32_t to) {
  return from != to && (from == server || to == server);
}

TEST_F(MirroredNamespaceTest, ServerThatIsGoneFailsRoundsByNameAndComesBack) {
  Start(
      {.patience = absl::Milliseconds(50), .attempt = absl::Milliseconds(200)});
  RunWorkers(Workers(), 1, 1);
  for (uint32_t gone = 0; gone < kServers; ++gone) {
    network_->SetFates([gone](uint32_t from, uint32_t to, const auto&) {
      return IsOf(gone, from, to) ? Fate::kIsLost : Fate::kArrives;
    });
    const uint32_t here = (gone + 1) % kServers;
    ASSERT_OK(Worker(here).Push("small", Full({7}, gone), 2 + gone));
    if (here == 0) {
      ASSERT_OK(Worker(3).Push("small", Full({7}, gone), 2 + gone));
    }

    EXPECT_THAT(Worker(here).Pull("small"),
                AllOf(HasReason(Reason::kRoundFailed),
                      StatusIs(absl::StatusCode::kAborted,
                               HasSubstr(absl::StrCat("server s")))));

    network_->SetFates(nullptr);
    RunWorkers(Workers(), 2 + gone, 2 + gone);
  }
  RunWorkers(WorkersOfOne(), 1, 1 + kServers);
  ExpectSame();
}

// A server that has had a sum, and not heard that it counts, gets it when its
// workers have pushed again: not what they push then, as the others have the
// sum already.
TEST_F(MirroredNamespaceTest, OutcomeThatWasNotHeardIsLearntByPushingAgain) {
  Start(
      {.patience = absl::Milliseconds(50), .attempt = absl::Milliseconds(500)});
  const uint32_t leader = Leader();
  const uint32_t deaf = (leader + 1) % kServers;
  PushWhereOutcomesAre(Fate::kReplyIsLost, deaf);
  const auto has_sum =
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5)));
  EXPECT_THAT(Worker(leader).Pull("small"), has_sum);
  EXPECT_THAT(Worker(deaf).Pull("small").status(),
              HasReason(Reason::kRoundFailed));

  network_->SetFates(nullptr);
  for (uint32_t rank = deaf; rank < kWorkers; rank += kServers) {
    ASSERT_OK(Worker(rank).Push("small", Full({7}, 100), 1));
  }

  EXPECT_THAT(Worker(deaf).Pull("small"), has_sum);
  EXPECT_EQ(At(deaf).Pull("small")->version, 2u);
}

// What has closed at the others closes at a server that is being stopped, too,
// or it would come back with less than they have.
TEST_F(MirroredNamespaceTest, ServerThatIsStoppedSettlesItsSumsFirst) {
  Start();
  const uint32_t stopped = (Leader() + 1) % kServers;
  PushWhereOutcomesAre(Fate::kReplyIsHeld, stopped);
  network_->AwaitHeldReply();
  for (uint32_t rank = stopped; rank < kWorkers; rank += kServers) {
    ASSERT_OK(Worker(rank).Push("i32", Full({30}, 1, DType::kI32), 1));
  }

  EXPECT_FALSE(network_->exchange(stopped)->Drain(absl::ZeroDuration()));
  // Nobody else has pushed to it.
  EXPECT_THAT(Worker(stopped).Pull("i32").status(),
              HasReason(Reason::kRoundFailed));
  network_->ReleaseReplies();
  EXPECT_TRUE(network_->exchange(stopped)->Drain(absl::Minutes(1)));
  network_->exchange(stopped)->Stop();

  EXPECT_THAT(
      Worker(stopped).Pull("small"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
}

TEST_F(MirroredNamespaceTest, ServerThatIsStoppedAsksAgainForItsSums) {
  Start();
  const uint32_t stopped = (Leader() + 1) % kServers;
  PushWhereOutcomesAre(Fate::kReplyIsHeld, stopped);
  network_->AwaitHeldReply();
  EXPECT_FALSE(network_->exchange(stopped)->Drain(absl::ZeroDuration()));

  network_->LoseReplies();

  EXPECT_TRUE(network_->exchange(stopped)->Drain(absl::Minutes(1)));
  EXPECT_THAT(
      Worker(stopped).Pull("small"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
}

TEST_F(MirroredNamespaceTest, GoesOnWithTheServersThatAreLeft) {
  Start();
  RunWorkers(Workers(), 1, 3);

  network_->Connect(kServers - 1);
  Choose(kServers - 1);
  RunWorkers(Workers(), 4, 6);

  RunWorkers(WorkersOfOne(), 1, 6);
  ExpectSame(kServers - 1);
}

// A server that has not heard that a sum counts is told so by one that has,
// whoever leads them by then.
TEST_F(MirroredNamespaceTest, SumThatHasCountedCountsInTheNextGroup) {
  Start(
      {.patience = absl::Milliseconds(50), .attempt = absl::Milliseconds(500)});
  const uint32_t deaf = 1;
  PushWhereOutcomesAre(Fate::kReplyIsLost, deaf);
  ASSERT_THAT(
      Worker(0).Pull("small"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
  ASSERT_THAT(Worker(deaf).Pull("small").status(),
              HasReason(Reason::kRoundFailed));

  network_->SetFates(nullptr);
  network_->Connect(kServers - 1);
  Choose(kServers - 1);
  for (const uint32_t rank : {1u, 3u}) {
    ASSERT_OK(Worker(rank).Push("small", Full({7}, 100), 1));
  }

  EXPECT_THAT(
      Worker(deaf).Pull("small"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
  EXPECT_EQ(At(deaf).Pull("small")->version, 2u);
}

// Who pushes again where the servers have become others counts once.
TEST_F(MirroredNamespaceTest, WorkerThatMovesWithinARoundCountsOnce) {
  Start(
      {.patience = absl::Milliseconds(50), .attempt = absl::Milliseconds(500)});
  ASSERT_OK(Worker(3).Push("small", Full({7}, 1), 1));
  network_->Connect(kServers - 1);
  Choose(kServers - 1);

  std::vector<std::thread> workers;
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    workers.emplace_back([&, rank] {
      do {
        ASSERT_OK(Worker(rank).Push("small", Full({7}, 1), 1));
      } while (ReasonOf(Worker(rank).Pull("small").status()) ==
               Reason::kRoundFailed);
    });
  }
  for (std::thread& worker : workers) worker.join();

  for (uint32_t server = 0; server < kServers - 1; ++server) {
    EXPECT_THAT(
        At(server).Pull("small"),
        testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
  }
}

// What a worker has pushed with other keys does not wait for those.
TEST_F(MirroredNamespaceTest, RoundEndsBeforeOthersThatWereAnnouncedWithIt) {
  // Nobody lives to see the patience of the leader end.
  Start({.patience = absl::Hours(1), .attempt = absl::Seconds(30)});
  std::vector<PushEntry> both(2);
  both[0] = {.key = "small", .tensor = Full({7}, 1)};
  both[1] = {.key = "i32", .tensor = Full({30}, 1, DType::kI32)};
  for (uint32_t rank = 0; rank + 1 < kWorkers; ++rank) {
    ASSERT_OK(Worker(rank).PushMany(both, 1));
  }
  ASSERT_OK(Worker(kWorkers - 1).Push("small", both[0].tensor, 1));

  const Caller worker = Worker(1).WithTimeout(absl::Minutes(1));
  EXPECT_THAT(
      worker.Pull("small"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));

  ASSERT_OK(Worker(kWorkers - 1).Push("i32", both[1].tensor, 1));
  EXPECT_THAT(
      worker.Pull("i32"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
}

// Whatever is lost, no contribution counts twice and none is left out.
TEST_F(MirroredNamespaceTest, HasTheBitsOfOneServerWhateverIsLost) {
  Start(
      {.patience = absl::Milliseconds(30), .attempt = absl::Milliseconds(100)});
  Mutex mutex;
  std::mt19937 random(1);
  network_->SetFates([&](uint32_t from, uint32_t to, const auto&) {
    MutexLock lock(&mutex);
    const uint32_t fate = random() % 60;
    if (from == to || fate > 1) return Fate::kArrives;
    return fate == 0 ? Fate::kIsLost : Fate::kReplyIsLost;
  });

  constexpr Step kSteps = testing::FewerIfSanitized(30);

  RunWorkers(Workers(), 1, kSteps);

  RunWorkers(WorkersOfOne(), 1, kSteps);
  ExpectSame();
}

TEST_F(MirroredNamespaceTest, ServersWithOtherVersionsDoNotSum) {
  Start(
      {.patience = absl::Milliseconds(50), .attempt = absl::Milliseconds(200)});
  ASSERT_OK(At(1).Delete({"small"}));
  ASSERT_OK(At(1).Init("small", Full({7}, 3)));

  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    ASSERT_OK(Worker(rank).Push("small", Full({7}, 1), 1));
  }

  EXPECT_THAT(Worker(0).Pull("small"),
              AllOf(HasReason(Reason::kRoundFailed),
                    StatusIs(absl::StatusCode::kAborted,
                             HasSubstr("expected the same key"))));
}

}  // namespace
}  // namespace tensorkv
