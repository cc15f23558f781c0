#include "tests/service/cluster/partition_moves.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/answer.h"
#include "base/mutex.h"
#include "contract/placement.h"
#include "contract/reason.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cluster/cluster_resizer.h"
#include "service/cluster/partition_receiver.h"
#include "service/cluster/partition_sender.h"
#include "service/cluster/placement_changes.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace partition_moves_test {

using testing::AllPartitions;
using ::testing::Each;
using testing::HasReason;
using testing::IsCommit;
using testing::IsGivingUp;
using testing::kNamespace;
using testing::MovingServer;
using ::testing::Not;
using testing::One;
using testing::PartitionMoves;
using testing::PushOne;
using testing::PushStep;
using testing::StatusIs;

using PartitionMovesTest = PartitionMoves;

TEST_F(PartitionMovesTest, KeysGoOnAsIfTheyHadNotMoved) {
  CreateNamespace(Summing("sgd(learning_rate=0.5, momentum=0.9)"));
  MovingServer stays(etcd_, "other");
  ASSERT_OK(testing::MakeNow(
      stays.store(),
      testing::CreateOf(kNamespace,
                        Summing("sgd(learning_rate=0.5, momentum=0.9)"))));
  InitRequest init;
  init.name_space = kNamespace;
  init.entries.push_back({"w", One(3)});
  stays.store().Init(init, {}, [](auto) {});
  ASSERT_OK(a_->Init(kNamespace, "w", One(3)));
  const auto push = [&](MovingServer& server) {
    const absl::StatusOr<PushReply> reply = server.Push(PushOne("w"));
    stays.store().Push(PushOne("w"), {}, [](auto) {});
    return reply;
  };
  ASSERT_OK(push(*a_));
  ASSERT_OK_AND_ASSIGN(const PullReply before, a_->Pull(kNamespace, "w"));

  ASSERT_OK(Move());

  ASSERT_OK_AND_ASSIGN(const PullReply moved, b_->Pull(kNamespace, "w"));
  EXPECT_EQ(moved.values[0].version, before.values[0].version);
  ASSERT_OK_AND_ASSIGN(const PushReply pushed, push(*b_));
  EXPECT_GT(pushed.results[0].version, before.values[0].version);
  PullRequest pull;
  pull.name_space = kNamespace;
  pull.entries.push_back({.key = "w"});
  float expected = 0;
  stays.store().Pull(pull, {}, [&](absl::StatusOr<PullReply> reply) {
    expected = reply->values[0].tensor.elements<float>()[0];
  });
  EXPECT_EQ(ElementOf(*b_, "w"), expected);
  EXPECT_THAT(a_->Push(PushOne("w")).status(), HasReason(Reason::kWrongServer));
  EXPECT_EQ(testing::Described(a_->store(), kNamespace).num_keys(), 0u);
}

// Pushers that count what was acknowledged, and a reader that looks that
// versions rise, until they are stopped.
class Traffic {
 public:
  static constexpr int kKeys = 40;

  Traffic(MovingServer& a, MovingServer& b) : servers_{&a, &b} {
    for (int thread = 0; thread < 2; ++thread) {
      threads_.emplace_back([this, thread] { PushTo(thread); });
    }
    threads_.emplace_back([this] { Read(); });
  }

  void AwaitMore() {
    const int before = num_pushed_;
    while (num_pushed_ < before + 50) std::this_thread::yield();
  }
  // Returns how often each key was pushed.
  std::vector<int> Stop() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
    return pushed_;
  }

 private:
  // What clients do: the same call again where it was made, and elsewhere if
  // that server says so.
  template <typename Call>
  void AtOwner(Call call) {
    for (int at = 0;;) {
      const absl::Status status = call(*servers_[at]);
      if (status.ok()) return;
      if (ReasonOf(status) == Reason::kWrongServer) {
        at = 1 - at;
      } else {
        ASSERT_TRUE(absl::IsUnavailable(status)) << status;
      }
    }
  }

  void PushTo(int thread) {
    for (uint64_t n = 1; !is_over_; ++n) {
      const int key = static_cast<int>(n) % (kKeys / 2) * 2 + thread;
      PushRequest push =
          PushOne(absl::StrCat("k", key), absl::StrCat("client", thread), n);
      push.call_id->answered_below = n;
      AtOwner([&](MovingServer& server) { return server.Push(push).status(); });
      ++pushed_[key];
      ++num_pushed_;
    }
  }

  void Read() {
    Version last = 0;
    while (!is_over_) {
      AtOwner([&](MovingServer& server) {
        const absl::StatusOr<PullReply> reply = server.Pull(kNamespace, "k0");
        if (!reply.ok()) return reply.status();
        EXPECT_GE(reply->values[0].version, last);
        last = reply->values[0].version;
        return absl::OkStatus();
      });
    }
  }

  MovingServer* const servers_[2];
  std::atomic<bool> is_over_ = false;
  std::atomic<int> num_pushed_ = 0;
  std::vector<int> pushed_ = std::vector<int>(kKeys);
  std::vector<std::thread> threads_;
};

TEST_F(PartitionMovesTest, NoPushIsLostOrAppliedTwiceWhileKeysMove) {
  CreateNamespace(Summing());
  for (int i = 0; i < Traffic::kKeys; ++i) {
    ASSERT_OK(a_->Init(kNamespace, absl::StrCat("k", i), One(0)));
  }
  Traffic traffic(*a_, *b_);

  traffic.AwaitMore();
  const absl::Status moved = Move();
  if (moved.ok()) traffic.AwaitMore();
  const std::vector<int> pushed = traffic.Stop();

  ASSERT_OK(moved);
  for (int key = 0; key < Traffic::kKeys; ++key) {
    EXPECT_EQ(ElementOf(*b_, absl::StrCat("k", key)), pushed[key]);
  }
}

TEST_F(PartitionMovesTest, NamespacesAndWorkersKeepTheirIds) {
  CreateKey(Rounds(/*num_workers=*/1));
  const JoinRequest join = testing::JoinOf(kNamespace, "w", absl::Minutes(5));
  const uint64_t epoch = testing::MakeNow(a_->store(), join)->worker().epoch();

  ASSERT_OK(Move());

  for (const std::string name : {kNamespace, "default"}) {
    EXPECT_EQ(testing::Described(b_->store(), name).uid(),
              testing::Described(a_->store(), name).uid());
  }
  const WorkerStatus moved =
      testing::Described(b_->store(), kNamespace).workers().at(0);
  EXPECT_EQ(moved.name(), "w");
  EXPECT_EQ(moved.worker().epoch(), epoch);
  EXPECT_GT(testing::MakeNow(b_->store(), join)->worker().epoch(), epoch);
}

TEST_F(PartitionMovesTest, KeysOfAnotherLifeOfANamespaceStay) {
  CreateKey(Summing());
  CreateNamespaceRequest later = testing::CreateOf(kNamespace, Summing());
  ASSERT_OK(testing::MakeNow(b_->store(), later));

  EXPECT_FALSE(Move().ok());

  EXPECT_EQ(Owner(), a_.get());
  EXPECT_EQ(ElementOf(*a_), 0);
  ASSERT_OK(testing::MakeNow(b_->store(), testing::RemoveOf(kNamespace)));
  later.set_namespace_uid(testing::Described(a_->store(), kNamespace).uid());
  ASSERT_OK(testing::MakeNow(b_->store(), later));
  EXPECT_OK(Move());
}

TEST_F(PartitionMovesTest, RepeatOfAPushIsAnsweredByTheFormerOwner) {
  CreateKey(Summing());
  ASSERT_OK_AND_ASSIGN(const PushReply first, a_->Push(PushOne("k", "c", 1)));
  ASSERT_OK(Move());

  ASSERT_OK_AND_ASSIGN(const PushReply again, a_->Push(PushOne("k", "c", 1)));

  EXPECT_EQ(again.results[0].version, first.results[0].version);
  EXPECT_THAT(a_->Push(PushOne("k", "c", 2)).status(),
              HasReason(Reason::kWrongServer));
  EXPECT_EQ(ElementOf(*b_), 1);
}

TEST_F(PartitionMovesTest, KeysAreReadAndChangedUntilLittleIsLeft) {
  CreateKey(Summing());
  std::vector<absl::Status> pushes;
  std::vector<absl::Status> pulls;
  a_->call = [&](const MoveRequest& request) {
    pushes.push_back(a_->Push(PushOne("k")).status());
    pulls.push_back(a_->Pull(kNamespace, "k").status());
    return b_->Take(request);
  };

  ASSERT_OK(Move());

  // The beginning, the keys, what has changed since, and the commit.
  ASSERT_EQ(pushes.size(), 4u);
  EXPECT_OK(pushes[0]);
  EXPECT_OK(pushes[1]);
  EXPECT_THAT(pushes[2], HasReason(Reason::kKeyMoving));
  EXPECT_THAT(pushes[3], HasReason(Reason::kKeyMoving));
  EXPECT_OK(pulls[0]);
  EXPECT_OK(pulls[1]);
  EXPECT_OK(pulls[2]);
  EXPECT_THAT(pulls[3], HasReason(Reason::kKeyMoving));
  EXPECT_EQ(ElementOf(*b_), 2);
}

absl::StatusOr<CreateSnapshotReply> Reserve(MovingServer& server) {
  CreateSnapshotRequest reserve;
  reserve.set_namespace_(kNamespace);
  reserve.set_series("s");
  reserve.set_step(CreateSnapshotRequest::RESERVE);
  return Await<CreateSnapshotReply>([&](auto done) {
    server.store().CreateSnapshot(reserve, {}, std::move(done));
  });
}

TEST_F(PartitionMovesTest, NumbersOfSnapshotsGoOnWhereTheirHomeMoves) {
  CreateKey(Summing());
  std::vector<absl::Status> reserved;
  a_->call = [&](const MoveRequest& request) {
    reserved.push_back(Reserve(*a_).status());
    return b_->Take(request);
  };

  ASSERT_OK(Move());

  ASSERT_EQ(reserved.size(), 4u);
  EXPECT_OK(reserved[0]);
  EXPECT_OK(reserved[1]);
  EXPECT_THAT(reserved[2], HasReason(Reason::kKeyMoving));
  EXPECT_THAT(reserved[3], HasReason(Reason::kKeyMoving));
  EXPECT_THAT(Reserve(*a_).status(), HasReason(Reason::kWrongServer));
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply next, Reserve(*b_));
  EXPECT_EQ(next.number(), 3u);
  Connect(b_, a_);
  ASSERT_OK(Move(*b_, "a"));
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply back, Reserve(*a_));
  EXPECT_EQ(back.number(), 4u);
}

// What each call that is for the home of the namespace answers.
std::vector<absl::Status> AskHome(MovingServer& server) {
  MemoryTensorStore& store = server.store();
  CreateSnapshotRequest name;
  name.set_series("s");
  name.set_step(CreateSnapshotRequest::NAME);
  DescribeSnapshotRequest describe;
  *describe.mutable_at() = SnapshotOf("s", 1);
  DescribeSnapshotRequest latest;
  *latest.mutable_at() = LatestSnapshot("s");
  LeaseSnapshotRequest lease;
  *lease.mutable_at() = SnapshotOf("s", 1);
  lease.set_lease("l");
  LeaseSnapshotRequest release = lease;
  lease.mutable_duration()->set_seconds(60);
  DeleteSnapshotRequest remove;
  remove.set_series("s");
  DeleteSnapshotRequest remove_one = remove;
  remove_one.set_number(1);
  const auto ask = [&]<typename Request>(void (MemoryTensorStore::*verb)(
                                             Request, CallContext,
                                             ReplyCallback<ReplyTo<Request>>),
                                         Request request) {
    request.set_namespace_(kNamespace);
    return Await<ReplyTo<Request>>(
               [&](auto done) { (store.*verb)(request, {}, std::move(done)); })
        .status();
  };
  return {ask(&MemoryTensorStore::CreateSnapshot, name),
          ask(&MemoryTensorStore::DescribeSnapshot, describe),
          ask(&MemoryTensorStore::DescribeSnapshot, latest),
          ask(&MemoryTensorStore::ListSnapshots, ListSnapshotsRequest()),
          ask(&MemoryTensorStore::LeaseSnapshot, lease),
          ask(&MemoryTensorStore::LeaseSnapshot, release),
          ask(&MemoryTensorStore::DeleteSnapshot, remove),
          ask(&MemoryTensorStore::DeleteSnapshot, remove_one)};
}

TEST_F(PartitionMovesTest, AFormerHomeSaysNothingOfSnapshots) {
  CreateKey(Summing());
  ASSERT_OK(Reserve(*a_));
  ASSERT_OK(Move());

  EXPECT_THAT(AskHome(*a_), Each(HasReason(Reason::kWrongServer)));
  EXPECT_THAT(AskHome(*b_), Each(Not(HasReason(Reason::kWrongServer))));
}

// Keys of 8 MiB together, which are more than few bytes.
class LargeMovesTest : public PartitionMoves {
 protected:
  static constexpr int kKeys = 8;
  static constexpr uint64_t kKeyBytes = 1 << 20;

  LargeMovesTest() {
    CreateNamespace(Summing());
    for (int i = 0; i < kKeys; ++i) {
      EXPECT_OK(a_->Init(kNamespace, absl::StrCat("k", i), OnesOfAKey()));
    }
  }
  static Tensor OnesOfAKey() {
    return *Tensor::Filled(DType::kF32, {kKeyBytes / sizeof(float)}, 1);
  }
  absl::Status PushTo(int key) {
    PushRequest request;
    request.name_space = kNamespace;
    request.entries.push_back({absl::StrCat("k", key), false, OnesOfAKey()});
    return a_->Push(std::move(request)).status();
  }
};

TEST_F(LargeMovesTest, NothingIsSentWhileIdleKeysAreFenced) {
  ASSERT_OK(Move());

  EXPECT_EQ(a_->sender().sent_bytes(), kKeys * kKeyBytes);
  EXPECT_EQ(a_->sender().sent_fenced_bytes(), 0u);
}

// With each part of the move some key is pushed, in turns.
TEST_F(LargeMovesTest, OnlyLastChangesAreSentWhileBusyKeysAreFenced) {
  int num_parts = 0;
  int num_pushed = 0;
  a_->call = [&](const MoveRequest& request) {
    num_pushed += PushTo(num_parts++ / 4 % kKeys).ok();
    return b_->Take(request);
  };

  ASSERT_OK(Move());

  EXPECT_GT(num_pushed, kKeys);
  EXPECT_GT(a_->sender().sent_bytes(), kKeys * kKeyBytes);
  EXPECT_LE(a_->sender().sent_fenced_bytes(), 2 * kKeyBytes);
  float sum = 0;
  for (int i = 0; i < kKeys; ++i) sum += ElementOf(*b_, absl::StrCat("k", i));
  EXPECT_EQ(sum, kKeys + num_pushed);
}

TEST_F(PartitionMovesTest, RoundThatIsOpenCloses) {
  CreateKey(Rounds(/*num_workers=*/2));
  const auto push = [](MovingServer& server, uint32_t rank, Step step) {
    return server.Push(PushStep(rank, step)).status();
  };
  ASSERT_OK(push(*a_, 0, 1));
  absl::Status next_step;
  absl::Status last_of_round;
  std::thread other([&] {
    // The move has begun once there are no new keys.
    for (int i = 0; a_->Init(kNamespace, absl::StrCat("new", i), One()).ok();) {
      ++i;
    }
    next_step = push(*a_, 0, 2);
    last_of_round = push(*a_, 1, 1);
  });

  const absl::Status moved = Move();
  other.join();

  ASSERT_OK(moved);
  EXPECT_THAT(next_step, HasReason(Reason::kKeyMoving));
  EXPECT_OK(last_of_round);
  EXPECT_EQ(ElementOf(*b_), 2);
  // What the round knew has come along.
  ASSERT_OK(push(*b_, 0, 1));
  EXPECT_OK(push(*b_, 0, 2));
}

TEST_F(PartitionMovesTest, KeysAreNotSentAgainWhileTheirRoundDoesNotClose) {
  a_ = std::make_unique<MovingServer>(etcd_, "a",
                                      /*patience=*/absl::ZeroDuration());
  a_->Learn();
  CreateKey(Rounds(/*num_workers=*/2));
  ASSERT_OK(a_->Push(PushStep(0, 1)));
  int num_parts = 0;
  a_->call = [&](const MoveRequest& request) {
    num_parts += std::holds_alternative<v1::SendMovePartRequest>(request);
    return b_->Take(request);
  };

  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(Move(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  }

  EXPECT_EQ(num_parts, 1);
  ASSERT_OK(a_->Push(PushStep(1, 1)));
  ASSERT_OK(Move());
  EXPECT_EQ(ElementOf(*b_), 2);
}

// Its workers go back to the step of that round when they come again.
TEST_F(PartitionMovesTest, RoundOfWorkersThatAreAllLostHoldsNothingUp) {
  CreateKey(Rounds(/*num_workers=*/2));
  const auto join = [](MovingServer& server, uint32_t rank) {
    return testing::MakeNow(
               server.store(),
               testing::JoinOf(kNamespace, absl::StrCat("worker", rank),
                               absl::Seconds(1), rank))
        .value();
  };
  const auto push = [](MovingServer& server, const Worker& worker, Step step) {
    PushRequest request = PushStep(worker.rank, step);
    request.worker = worker;
    request.call_id.reset();
    return server.Push(request).status();
  };
  const Worker first = WorkerOf(join(*a_, 0).worker());
  const Worker second = WorkerOf(join(*a_, 1).worker());
  ASSERT_OK(push(*a_, first, 1));
  ASSERT_OK(push(*a_, second, 1));
  ASSERT_OK(push(*a_, first, 2));

  // Within the patience for rounds their leases end.
  ASSERT_OK(Move());

  for (uint32_t rank = 0; rank < 2; ++rank) {
    const JoinReply joined = join(*b_, rank);
    EXPECT_LE(joined.next_step(), 2u);
    ASSERT_OK(push(*b_, WorkerOf(joined.worker()), 2));
  }
  EXPECT_EQ(ElementOf(*b_), 4);
}

// It has the group from before, and the others have gone on since.
TEST_F(PartitionMovesTest, StepsGoOnWhereKeysComeBack) {
  CreateKey(Rounds(/*num_workers=*/1));
  constexpr Step kSteps = 20;
  ASSERT_OK(a_->Push(PushStep(0, 1)));
  ASSERT_OK(Move());
  for (Step step = 2; step <= kSteps; ++step) {
    ASSERT_OK(b_->Push(PushStep(0, step)));
  }
  Connect(b_, a_);

  ASSERT_OK(Move(*b_, "a"));

  EXPECT_OK(a_->Push(PushStep(0, kSteps + 1)));
  EXPECT_EQ(ElementOf(*a_), kSteps + 1);
}

// It has passed the check of the placement while the keys were here before, and
// has waited since for its device.
TEST_F(PartitionMovesTest, CallOfBeforeChangesNoKeysThatComeBack) {
  CreateKey(Summing());
  ASSERT_OK(Move());
  std::vector<absl::Status> inits;
  b_->call = [&](const MoveRequest& request) {
    const absl::Status status = a_->Take(request);
    if (!IsCommit(request)) {
      InitRequest init = {.name_space = kNamespace,
                          .on_existing = OnExisting::kReplace};
      init.entries.push_back({"k", One(7)});
      a_->store().Init(std::move(init), {}, [&](absl::StatusOr<InitReply> end) {
        inits.push_back(end.status());
      });
    }
    return status;
  };

  ASSERT_OK(Move(*b_, "a"));

  ASSERT_EQ(inits.size(), 3u);
  EXPECT_THAT(inits, ::testing::Each(HasReason(Reason::kWrongServer)));
  EXPECT_EQ(ElementOf(*a_), 0);
  EXPECT_OK(a_->Push(PushOne("k")));
}

// Rounds that are open do not hold up a server that is to end.
TEST_F(PartitionMovesTest, ServerThatEndsWaitsForNoRounds) {
  CreateKey(Rounds(/*num_workers=*/2));
  ASSERT_OK(a_->Push(PushStep(0, 1)));
  const ClusterOptions options = {.etcd = {etcd_.address()},
                                  .cluster = "c",
                                  .server_name = "a",
                                  .lease = absl::Seconds(5)};
  ASSERT_OK(a_->records().SetWanted({{.name = "b", .address = "b:1"}},
                                    /*revision=*/0));
  std::vector<std::string> lines;
  Channels channels;
  ClusterResizer resizer(
      options, &channels, a_->environment(), &a_->receiver(),
      [](const auto&, const auto&) { return absl::OkStatus(); }, {},
      [&](const std::string& line) { lines.push_back(line); });
  // The move has begun once there are no new keys.
  for (int i = 0; a_->Init(kNamespace, absl::StrCat("new", i), One()).ok();) {
    ++i;
  }

  resizer.Stop();

  EXPECT_THAT(lines, ::testing::Contains(::testing::HasSubstr("ends")));
  EXPECT_OK(a_->Push(PushStep(1, 1)));
}

// It holds a server up that is to end no longer than it takes to say so.
TEST_F(PartitionMovesTest, MoveOfAServerThatEndsIsGivenUp) {
  CreateKey(Rounds(/*num_workers=*/2));
  ASSERT_OK(a_->Push(PushStep(0, 1)));
  const absl::Status ends = absl::CancelledError("ends");
  int num_calls = 0;
  a_->call = [&](const MoveRequest& request) {
    ++num_calls;
    a_->goes_on = [&] { return ends; };
    return b_->Take(request);
  };

  a_->goes_on = [&] { return ends; };
  EXPECT_THAT(Move(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(num_calls, 0);

  // Once the round has closed, between the beginning and the first part. The
  // receiver hears of it.
  ASSERT_OK(a_->Push(PushStep(1, 1)));
  a_->goes_on = [] { return absl::OkStatus(); };
  EXPECT_THAT(Move(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(num_calls, 2);
  EXPECT_OK(a_->Push(PushStep(0, 2)));
}

// Who looks seldom, as moves take long, sees a server only when it is away. The
// time that passes between two looks is what is tested, so it has to pass.
TEST_F(PartitionMovesTest, ServerThatWasThereBetweenLooksIsNotLost) {
  const ClusterOptions options = {.etcd = {etcd_.address()},
                                  .cluster = "c",
                                  .server_name = "a",
                                  .lease = absl::Seconds(1),
                                  .lost_after = absl::Milliseconds(1500)};
  ClusterReading reading = *a_->records().Read();
  reading.placement.servers.push_back({.name = "away", .address = "away:1"});
  reading.placement.owners[0] = 1;
  ++reading.placement.version;
  ASSERT_OK(a_->records().ReplacePlacement(reading.placement,
                                           reading.placement_revision));
  reading.placement.servers.push_back({.name = "b", .address = "b:1"});
  ASSERT_OK(a_->records().SetWanted(reading.placement.servers, /*revision=*/0));
  Notification has_looked_again;
  bool is_there = false;
  int num_moves = 0;
  const auto move = [&](const ClusterServer&, const MoveRequest& request) {
    if (IsGivingUp(request)) return absl::OkStatus();
    if (++num_moves == 1) {
      MovingServer away(etcd_, "away");
      EXPECT_OK(
          away.records().etcd().RevokeLease(away.environment().own_lease()));
      absl::SleepFor(options.lost_after);
    } else if (num_moves == 2) {
      is_there = FindServer(b_->records().Read()->placement.servers, "away") !=
                 nullptr;
      has_looked_again.Notify();
    }
    return absl::UnavailableError("is not taken");
  };
  Channels channels;
  ClusterResizer resizer(options, &channels, a_->environment(), &a_->receiver(),
                         move, {}, [](const std::string&) {});

  has_looked_again.WaitForNotification();
  resizer.Stop();

  EXPECT_TRUE(is_there);
}

}  // namespace partition_moves_test
}  // namespace tensorkv
