#include <memory>
#include <variant>

#include "absl/strings/str_cat.h"
#include "contract/placement.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cluster/partition_receiver.h"
#include "service/cluster/partition_sender.h"
#include "service/cluster/placement_changes.h"
#include "tests/service/cluster/partition_moves.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace faulty_moves_test {

using testing::AllPartitions;
using testing::HasReason;
using testing::IsCommit;
using testing::IsGivingUp;
using testing::kNamespace;
using testing::MovingServer;
using testing::One;
using testing::PartitionMoves;
using testing::PushOne;
using testing::StatusIs;

// What goes wrong at the n-th call of a move.
enum class Fault {
  kRequestIsLost,
  kReplyIsLost,
  kReceiverRestarts,
  kReceiverRestartsAfterwards,
  kPlacementChanges,
};

// Copies the request to `begin` if it begins a move.
void KeepBegin(const MoveRequest& request, v1::BeginMoveRequest& begin) {
  const auto* const found = std::get_if<v1::BeginMoveRequest>(&request);
  if (found != nullptr && !found->partitions().empty()) begin = *found;
}

class FaultyMovesTest : public PartitionMoves {
 protected:
  // What becomes of a request of "a".
  absl::Status Fail(Fault fault, const MoveRequest& request) {
    const absl::Status lost = absl::UnavailableError("lost");
    switch (fault) {
      case Fault::kRequestIsLost:
        return lost;
      case Fault::kReplyIsLost:
        b_->Take(request).IgnoreError();
        return lost;
      case Fault::kReceiverRestarts:
        b_ = std::make_unique<MovingServer>(etcd_, "b");
        return b_->Take(request);
      case Fault::kReceiverRestartsAfterwards:
        // Once it has committed, what it had is its own to lose.
        if (!IsCommit(request)) {
          EXPECT_OK(b_->Take(request));
        }
        b_ = std::make_unique<MovingServer>(etcd_, "b");
        return lost;
      case Fault::kPlacementChanges:
        ChangePlacement();
        return b_->Take(request);
    }
    return lost;
  }

  // Moves from "a" with a fault at the call of that number.
  void MoveWith(Fault fault, int faulty_call) {
    a_->call = [this, fault, faulty_call,
                num_calls = 0](const MoveRequest& request) mutable {
      return num_calls++ == faulty_call ? Fail(fault, request)
                                        : b_->Take(request);
    };
    Move().IgnoreError();
    EXPECT_FALSE(a_->sender().is_unsettled());
  }

  // The move is made again, or is undone by one in the other direction.
  void MoveBack(MovingServer* owner) {
    Connect(a_, b_);
    if (owner == a_.get()) {
      ASSERT_OK(Move());
    }
    b_->Learn();
    Connect(b_, a_);
    ASSERT_OK(Move(*b_, "a"));
  }

 private:
  void ChangePlacement() {
    ClusterReading reading = *a_->records().Read();
    ++reading.placement.version;
    EXPECT_OK(a_->records().ReplacePlacement(reading.placement,
                                             reading.placement_revision));
  }
};

TEST_F(FaultyMovesTest, AnyFaultLeavesOneOwnerWithAllThatWasPushed) {
  CreateNamespace(Summing());
  int num_keys = 0;
  for (const Fault fault :
       {Fault::kRequestIsLost, Fault::kReplyIsLost, Fault::kReceiverRestarts,
        Fault::kReceiverRestartsAfterwards, Fault::kPlacementChanges}) {
    // The beginning, the keys, what has changed since, and the commit.
    for (int n = 0; n < 4; ++n) {
      SCOPED_TRACE(absl::StrCat("fault ", static_cast<int>(fault), " at ", n));
      const std::string key = absl::StrCat("k", num_keys++);
      ASSERT_EQ(Owner(), a_.get());
      ASSERT_OK(a_->Init(kNamespace, key, One(0)));
      ASSERT_OK(a_->Push(PushOne(key)));

      MoveWith(fault, n);

      MovingServer* const now = Owner();
      ASSERT_NE(now, nullptr);
      now->Learn();
      for (int i = 0; i < num_keys; ++i) {
        EXPECT_EQ(ElementOf(*now, absl::StrCat("k", i)), 1);
      }
      ASSERT_NO_FATAL_FAILURE(MoveBack(now));
    }
  }
}

TEST_F(FaultyMovesTest, EtcdThatIsAwayLeavesTheOutcomeOpen) {
  CreateKey(Summing());
  a_->call = [&](const MoveRequest& request) {
    const absl::Status status = b_->Take(request);
    if (IsCommit(request)) etcd_.Stop();
    return status;
  };

  EXPECT_FALSE(Move().ok());

  ASSERT_TRUE(a_->sender().is_unsettled());
  EXPECT_THAT(a_->Push(PushOne("k")).status(), HasReason(Reason::kKeyMoving));
  EXPECT_THAT(a_->Pull(kNamespace, "k").status(),
              HasReason(Reason::kKeyMoving));
  EXPECT_OK(b_->Push(PushOne("k")));

  etcd_.Start();
  ASSERT_OK_AND_ASSIGN(const bool has_moved, a_->sender().Settle());
  EXPECT_TRUE(has_moved);
  EXPECT_THAT(a_->Push(PushOne("k")).status(), HasReason(Reason::kWrongServer));
}

// Etcd comes back when they are a third server's.
class LateOutcomeTest : public PartitionMoves {
 protected:
  // "b" hears of the commit, or does not.
  void MoveWithoutOutcome(bool is_committed) {
    CreateKey(Summing());
    ASSERT_OK(a_->Push(PushOne("k")));
    a_->call = [this, is_committed](const MoveRequest& request) {
      absl::Status status = absl::UnavailableError("lost");
      const bool is_commit = IsCommit(request);
      if (!is_commit || is_committed) status = b_->Take(request);
      if (is_commit) etcd_.Stop();
      return status;
    };
    EXPECT_FALSE(Move().ok());
    ASSERT_TRUE(a_->sender().is_unsettled());
    etcd_.Start();
  }
  size_t NumKeys() {
    return testing::Described(a_->store(), kNamespace).num_keys();
  }

  std::unique_ptr<MovingServer> c_ = std::make_unique<MovingServer>(etcd_, "c");
};

TEST_F(LateOutcomeTest, PartitionsThatHaveMovedOnAreNotTakenBack) {
  ASSERT_NO_FATAL_FAILURE(MoveWithoutOutcome(/*is_committed=*/true));
  Connect(b_, c_);
  ASSERT_OK(Move(*b_, "c"));

  ASSERT_OK_AND_ASSIGN(const bool has_moved, a_->sender().Settle());

  EXPECT_TRUE(has_moved);
  EXPECT_THAT(a_->Push(PushOne("k")).status(), HasReason(Reason::kWrongServer));
  EXPECT_EQ(NumKeys(), 0u);
}

// What it has of them stays: whoever restores them does so from its last
// checkpoint, which may be yet to come.
TEST_F(LateOutcomeTest, PartitionsThatCountAsLostAreNotTakenBack) {
  ASSERT_NO_FATAL_FAILURE(MoveWithoutOutcome(/*is_committed=*/false));
  ClusterReading reading = *c_->records().Read();
  reading.placement.servers = {{.name = "c", .address = "c:1"}};
  reading.placement.lost = {{.server = "a", .partitions = AllPartitions()}};
  ++reading.placement.version;
  ASSERT_OK(c_->records().ReplacePlacement(reading.placement,
                                           reading.placement_revision));

  ASSERT_OK_AND_ASSIGN(const bool has_moved, a_->sender().Settle());

  EXPECT_FALSE(has_moved);
  EXPECT_THAT(a_->Push(PushOne("k")).status(), HasReason(Reason::kWrongServer));
  EXPECT_EQ(NumKeys(), 1u);
}

TEST_F(FaultyMovesTest, MoveThatLateMessagesHaveBegunAgainDoesNotCommit) {
  CreateKey(Summing());
  v1::BeginMoveRequest begin;
  a_->call = [&](const MoveRequest& request) {
    KeepBegin(request, begin);
    if (IsCommit(request)) {
      v1::BeginMoveRequest earlier = begin;
      earlier.set_move(begin.move() + 1);
      EXPECT_OK(b_->Take(earlier));
      EXPECT_OK(b_->Take(begin));
    }
    return b_->Take(request);
  };

  EXPECT_THAT(Move(), StatusIs(absl::StatusCode::kDataLoss));

  ASSERT_EQ(Owner(), a_.get());
  EXPECT_EQ(ElementOf(*a_), 0);
  Connect(a_, b_);
  ASSERT_OK(Move());
  EXPECT_EQ(ElementOf(*b_), 0);
}

// What the receiver is told late does not count once the sender has taken the
// partitions back, or was started anew.
TEST_F(FaultyMovesTest, LateCommitIsRefused) {
  CreateKey(Summing());
  v1::CommitMoveRequest commit;
  a_->call = [&](const MoveRequest& request) {
    if (IsGivingUp(request)) return absl::UnavailableError("lost");
    if (!IsCommit(request)) return b_->Take(request);
    commit = std::get<v1::CommitMoveRequest>(request);
    return absl::UnavailableError("late");
  };
  EXPECT_THAT(Move(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_OK(a_->Push(PushOne("k")));

  EXPECT_THAT(b_->Take(commit), StatusIs(absl::StatusCode::kAborted));
  commit.set_placement_version(a_->records().Read()->placement.version);
  a_ = std::make_unique<MovingServer>(etcd_, "a");
  EXPECT_THAT(b_->Take(commit), StatusIs(absl::StatusCode::kAborted));

  EXPECT_TRUE(OwnsAll(a_->records().Read()->placement, "a", AllPartitions()));
}

// What the receiver has got, or is getting, from another server meanwhile, a
// sender that has come to nothing before does not take away.
TEST_F(FaultyMovesTest, SenderThatHasLostPartitionsTakesNoneAway) {
  CreateKey(Summing());
  MovingServer c(etcd_, "c");
  c.Learn();
  v1::BeginMoveRequest begin;
  a_->call = [&](const MoveRequest& request) {
    KeepBegin(request, begin);
    if (IsCommit(request)) return absl::AbortedError("lost");
    if (IsGivingUp(request)) return absl::UnavailableError("lost");
    return c.Take(request);
  };
  EXPECT_FALSE(Move(*a_, "c").ok());
  Connect(a_, b_);
  ASSERT_OK(Move());
  b_->call = [&](const MoveRequest& request) {
    if (IsCommit(request)) {
      // The repeat, and a message that comes late.
      EXPECT_OK(c.Take(begin));
      begin.set_move(begin.move() + 1);
      EXPECT_THAT(c.Take(begin), StatusIs(absl::StatusCode::kAborted));
    }
    return c.Take(request);
  };

  ASSERT_OK(Move(*b_, "c"));

  EXPECT_OK(c.Pull(kNamespace, "k"));
  EXPECT_OK(c.Push(PushOne("k")));
}

// A part that comes late adds nothing to partitions that are served by now: of
// server "c", to which "a" has begun to send them.
class LatePartTest : public PartitionMoves {
 protected:
  // "a" begins, and its part is on its way for long.
  void BeginToC() {
    CreateKey(Summing());
    c_->Learn();
    a_->call = [this](const MoveRequest& request) -> absl::Status {
      const auto* const part = std::get_if<v1::SendMovePartRequest>(&request);
      if (IsGivingUp(request)) return absl::UnavailableError("lost");
      if (part == nullptr) return c_->Take(request);
      part_ = *part;
      return absl::UnavailableError("late");
    };
    EXPECT_FALSE(Move(*a_, "c").ok());
    ASSERT_EQ(part_.from(), "a");
  }
  void ExpectPartIsRefused() {
    EXPECT_THAT(c_->Take(part_), StatusIs(absl::StatusCode::kAborted));
    EXPECT_THAT(c_->Pull(kNamespace, "k").status(),
                StatusIs(absl::StatusCode::kNotFound));
  }

  std::unique_ptr<MovingServer> c_ = std::make_unique<MovingServer>(etcd_, "c");
  v1::SendMovePartRequest part_;
};

TEST_F(LatePartTest, IsRefusedOnceTheyHaveComeFromAnotherServer) {
  ASSERT_NO_FATAL_FAILURE(BeginToC());
  Connect(a_, b_);
  ASSERT_OK(Move());
  Connect(b_, c_);
  ASSERT_OK(Move(*b_, "c"));
  ASSERT_OK(c_->calls().MakeAndWait(testing::DeleteOf({"k"}, kNamespace)));

  ExpectPartIsRefused();
}

TEST_F(LatePartTest, IsRefusedOnceItsSenderCountsAsLost) {
  ASSERT_NO_FATAL_FAILURE(BeginToC());
  ClusterReading reading = *c_->records().Read();
  reading.placement.servers = {{.name = "c", .address = "c:1"}};
  reading.placement.lost = {
      {.server = "a", .partitions = AllPartitions(), .given_up = true}};
  ++reading.placement.version;
  ASSERT_OK(c_->records().ReplacePlacement(reading.placement,
                                           reading.placement_revision));
  ASSERT_OK(c_->restorer().RunOnce(*c_->records().Read()));

  ExpectPartIsRefused();
}

// What a move has brought that comes to nothing goes at once.
class GivenUpMovesTest : public PartitionMoves {
 protected:
  GivenUpMovesTest() { CreateKey(Summing()); }

  static uint64_t NumKeys(MovingServer& server) {
    return testing::Described(server.store(), kNamespace).num_keys();
  }
  // "a" has its key, takes calls, and can move it.
  void ExpectUnharmed() {
    ASSERT_EQ(Owner(), a_.get());
    EXPECT_OK(a_->Push(PushOne("k")));
    Connect(a_, b_);
    EXPECT_OK(Move());
    EXPECT_EQ(ElementOf(*b_), 1);
  }
};

TEST_F(GivenUpMovesTest, KeysOfASenderThatGivesUpGo) {
  a_->call = [&](const MoveRequest& request) {
    if (!IsCommit(request)) return b_->Take(request);
    EXPECT_EQ(NumKeys(*b_), 1u);
    return absl::InternalError("is not committed");
  };

  EXPECT_FALSE(Move().ok());

  EXPECT_EQ(NumKeys(*b_), 0u);
  ExpectUnharmed();
}

// It takes the partitions back once etcd answers.
TEST_F(GivenUpMovesTest, KeysOfAMoveWhoseOutcomeWasUnknownGo) {
  a_->call = [&](const MoveRequest& request) -> absl::Status {
    if (!IsCommit(request)) return b_->Take(request);
    etcd_.Stop();
    return absl::UnavailableError("lost");
  };
  EXPECT_FALSE(Move().ok());
  EXPECT_EQ(NumKeys(*b_), 1u);
  etcd_.Start();

  ASSERT_OK_AND_ASSIGN(const bool has_moved, a_->sender().Settle());

  EXPECT_FALSE(has_moved);
  EXPECT_EQ(NumKeys(*b_), 0u);
  ExpectUnharmed();
}

TEST_F(GivenUpMovesTest, MoveOutlivesTheLateEndOfTheOneBefore) {
  MoveRequest end;
  a_->call = [&](const MoveRequest& request) -> absl::Status {
    if (IsGivingUp(request)) end = request;
    if (IsCommit(request) || IsGivingUp(request)) {
      return absl::UnavailableError("late");
    }
    return b_->Take(request);
  };
  EXPECT_FALSE(Move().ok());
  a_->call = [&](const MoveRequest& request) {
    if (IsCommit(request)) {
      EXPECT_OK(b_->Take(end));
    }
    return b_->Take(request);
  };

  EXPECT_OK(Move());

  EXPECT_EQ(ElementOf(*b_), 0);
}

TEST_F(GivenUpMovesTest, ReadingFromBeforeAMoveDoesNotEndIt) {
  const ClusterReading before = *b_->records().Read();
  const MovingServer again(etcd_, "a");  // the registration is a new one
  a_->call = [&](const MoveRequest& request) -> absl::Status {
    if (IsCommit(request) || IsGivingUp(request)) {
      return absl::UnavailableError("lost");
    }
    return b_->Take(request);
  };
  EXPECT_FALSE(Move().ok());

  b_->receiver().EndAbandoned(before);

  EXPECT_EQ(NumKeys(*b_), 1u);
}

TEST_F(GivenUpMovesTest, KeysOfASenderThatHasDiedGo) {
  a_->call = [&](const MoveRequest& request) -> absl::Status {
    if (IsCommit(request) || IsGivingUp(request)) {
      return absl::UnavailableError("is dead");
    }
    return b_->Take(request);
  };
  EXPECT_FALSE(Move().ok());
  b_->receiver().EndAbandoned(*b_->records().Read());
  EXPECT_EQ(NumKeys(*b_), 1u);

  a_ = std::make_unique<MovingServer>(etcd_, "a");
  b_->receiver().EndAbandoned(*b_->records().Read());

  EXPECT_EQ(NumKeys(*b_), 0u);
}

// The second of them finds no room.
TEST_F(GivenUpMovesTest, KeysOfWhichSomeFindNoRoomGo) {
  ASSERT_OK(a_->Init(kNamespace, "large",
                     *Tensor::Filled(DType::kF32, {1 << 20}, 0)));
  NamespaceConfig config = Summing();
  config.budget_bytes = 1 << 20;
  ASSERT_OK(testing::MakeNow(
      b_->store(),
      testing::CreateOf(kNamespace, config, OnExisting::kFail,
                        testing::Described(a_->store(), kNamespace).uid())));

  EXPECT_THAT(Move(), StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_EQ(NumKeys(*b_), 0u);
  ASSERT_OK(a_->calls().MakeAndWait(testing::DeleteOf({"large"}, kNamespace)));
  ExpectUnharmed();
}

TEST_F(GivenUpMovesTest, KeysWhoseNamespaceIsDeletedMeanwhileGo) {
  a_->call = [&, num_calls = 0](const MoveRequest& request) mutable {
    if (++num_calls == 2) {
      EXPECT_OK(testing::MakeNow(a_->store(), testing::RemoveOf(kNamespace)));
    }
    return b_->Take(request);
  };

  EXPECT_THAT(Move(), StatusIs(absl::StatusCode::kAborted));

  EXPECT_EQ(NumKeys(*b_), 0u);
  ASSERT_EQ(Owner(), a_.get());
  Connect(a_, b_);
  EXPECT_OK(Move());
}

}  // namespace faulty_moves_test
}  // namespace tensorkv
