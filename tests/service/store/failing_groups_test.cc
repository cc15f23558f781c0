// Groups that fail and go on, in thousands of orders of events: "failure is a
// state" against the real store.
//
// Workers push the keys of their step, in one call or one by one, wait for all
// of them, then go on; or they push some steps ahead. Any worker may be killed
// and started again, lose its lease while it lives, say that it fails, or
// replace its own epoch, and any update may fail, at any moment. A worker may
// also leave when it has read the values of a step, and another take its rank.
// Whatever happens, a worker knows one recovery: to push again the step that it
// is told, all of it. Then
//  - no step is applied but with one contribution of every worker, in order;
//  - a worker that has waited goes on only when all keys of its step are there;
//  - nobody waits for ever, and for one that has left only who joined later.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "contract/reason.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/sanitizers.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv {
namespace failing_groups_test {

constexpr uint32_t kNumWorkers = 3;
constexpr int kNumKeys = 2;
constexpr Step kNumSteps = 4;
constexpr uint32_t kMaxOpenRounds = 2;
constexpr absl::Duration kLease = absl::Seconds(2);

double ContributionOf(uint32_t rank, Step step) {
  return step * (rank == 0 ? 1 : rank == 1 ? 100 : 10000);
}

double ValueAfter(Step step) {
  double value = 0;
  for (Step each = 1; each <= step; ++each) {
    for (uint32_t rank = 0; rank < kNumWorkers; ++rank) {
      value += ContributionOf(rank, each);
    }
  }
  return value;
}

// Returns a number below `end`.
using Choice = std::function<int(int end)>;

class Group {
 public:
  // What a schedule does throughout.
  struct Plan {
    bool pushes_all_keys_at_once = false;
    // How many steps a worker may push before it waits.
    Step max_ahead = 1;
    int num_failures = 0;
    int num_leaves = 0;
  };

  Group(const Plan& plan, Choice choose)
      : plan_(plan), choose_(std::move(choose)) {
    EXPECT_OK(testing::MakeNow(
        store_, testing::CreateOf("n", {.mode = Mode::kSync,
                                        .num_workers = kNumWorkers,
                                        .rule = {.name = "accumulate"},
                                        .max_open_rounds = kMaxOpenRounds})));
    InitRequest init = {.name_space = "n"};
    for (int key = 0; key < kNumKeys; ++key) {
      init.entries.push_back({NameOf(key), Filled(0)});
    }
    EXPECT_OK(testing::InitNow(store_, std::move(init)));
    for (uint32_t rank = 0; rank < kNumWorkers; ++rank) Join(rank);
  }

  // Runs a schedule to its end, or to its first wrong state.
  void Run() {
    for (int move = 0; move < 5000 && !::testing::Test::HasFailure(); ++move) {
      if (IsDone()) return Check();
      Move();
      Check();
    }
    ADD_FAILURE() << "the group does not come to an end";
  }

  const std::string& trace() const { return trace_; }

 private:
  enum class State { kLive, kFenced, kDead, kLeft };

  struct Member {
    State state = State::kDead;
    bool has_lease = false;
    Worker worker;
    Step step = 1;
    // How many keys of the step are pushed.
    int num_pushed = 0;
    // The highest step that it has pushed any key of.
    Step last = 0;
    // How many workers the rank has had: each has a name of its own.
    int life = 0;
    // When it joined or left, in the order in which workers do so.
    int order = 0;
    // The last step whose values it has read, and not thrown away since.
    Step confirmed = 0;
    // The answer to a Pull that waits; null when none does.
    std::shared_ptr<std::optional<absl::StatusOr<PullReply>>> pull;
  };

  static std::string NameOf(int key) { return absl::StrCat("k", key); }
  static std::string NameOf(uint32_t rank, int life) {
    return absl::StrCat("worker-", rank, ".", life);
  }
  static Tensor Filled(double value) {
    return *Tensor::Filled(DType::kF64, {1}, value);
  }

  bool IsDone() const {
    return std::all_of(members_.begin(), members_.end(), [](const Member& m) {
      return m.state == State::kLive && m.confirmed == kNumSteps;
    });
  }

  void Move() {
    const auto rank = static_cast<uint32_t>(choose_(kNumWorkers));
    Member& member = members_[rank];
    if (member.state == State::kDead) {
      return member.has_lease ? LoseLease(rank) : Join(rank);
    }
    if (member.state == State::kFenced) return Join(rank);
    if (member.state == State::kLeft) {
      ++member.life;
      return Join(rank);
    }
    if (plan_.num_failures > 0 && choose_(8) == 0) {
      --plan_.num_failures;
      return FailSomehow(rank);
    }
    if (member.pull != nullptr) return EndPull(rank);
    // Who ends within a step fails.
    const bool is_between_steps =
        member.step == member.last + 1 && member.confirmed + 1 == member.step;
    if (is_between_steps && plan_.num_leaves > 0 && choose_(6) == 0) {
      --plan_.num_leaves;
      return Leave(rank);
    }
    if (member.confirmed == kNumSteps) return;
    const bool can_push =
        member.step <= std::min(kNumSteps, member.confirmed + plan_.max_ahead);
    const bool must_push =
        member.num_pushed > 0 || member.confirmed + 1 == member.step;
    if (can_push && (must_push || choose_(2) == 0)) return Push(rank);
    BeginPull(rank);
  }

  void FailSomehow(uint32_t rank) {
    Member& member = members_[rank];
    switch (choose_(5)) {
      case 3:
        Note("fails", rank);
        ASSERT_OK(
            testing::MakeNow(store_, testing::FailureOf("n", member.worker)));
        member.has_lease = false;
        member.pull = nullptr;
        member.state = State::kDead;
        return;
      case 0:
        Note("kill", rank);
        member.state = State::kDead;
        member.pull = nullptr;
        return;
      case 1:
        return LoseLease(rank);
      case 2:
        Note("replace", rank);
        member.pull = nullptr;
        return Join(rank, member.worker.epoch);
      default:
        fails_updates_ = true;
        Note("update fails", rank);
        if (member.pull == nullptr && member.confirmed < kNumSteps &&
            member.step <= std::min(kNumSteps, member.confirmed + 1)) {
          Push(rank);
        }
        fails_updates_ = false;
        return;
    }
  }

  void Join(uint32_t rank, uint64_t replaces_epoch = 0) {
    Member& member = members_[rank];
    JoinRequest request =
        testing::JoinOf("n", NameOf(rank, member.life), kLease, rank);
    request.set_replaces_epoch(replaces_epoch);
    const absl::StatusOr<JoinReply> reply = testing::MakeNow(store_, request);
    ASSERT_OK(reply);
    ASSERT_EQ(reply->worker().rank(), rank);
    const bool was_lost = has_come_[rank] == member.life + 1;
    EXPECT_EQ(reply->lost_before(), was_lost && replaces_epoch == 0);
    has_come_[rank] = member.life + 1;
    member = {.state = State::kLive,
              .has_lease = true,
              .last = member.last,
              .life = member.life,
              .order = was_lost ? member.order : ++last_order_};
    member.worker = WorkerOf(reply->worker());
    GoTo(rank, reply->next_step());
    Note("joined", rank);
  }

  void Leave(uint32_t rank) {
    Note("leaves", rank);
    Member& member = members_[rank];
    ASSERT_OK(testing::MakeNow(
        store_, testing::RequestOfMember<LeaveRequest>("n", member.worker)));
    member.state = State::kLeft;
    member.has_lease = false;
    member.order = ++last_order_;
  }

  void GoTo(uint32_t rank, Step step) {
    Member& member = members_[rank];
    member.step = step;
    member.num_pushed = 0;
    member.confirmed = std::min(member.confirmed, step - 1);
    // It has joined anew: what came before the step had closed, or it would
    // have to push that again.
    if (member.confirmed == 0) member.confirmed = step - 1;
  }

  // Moves the time past the lease of one worker.
  void LoseLease(uint32_t rank) {
    Note("lose", rank);
    for (int half = 0; half < 2; ++half) {
      for (uint32_t other = 0; other < kNumWorkers; ++other) {
        if (other == rank || !members_[other].has_lease) continue;
        ASSERT_OK(
            testing::MakeNow(store_, testing::RequestOfMember<KeepAliveRequest>(
                                         "n", members_[other].worker)));
      }
      alarms_.Advance(kLease / 2 + absl::Milliseconds(1));
    }
    Member& member = members_[rank];
    member.has_lease = false;
    member.pull = nullptr;
    if (member.state == State::kLive) member.state = State::kFenced;
  }

  void Push(uint32_t rank) {
    Member& member = members_[rank];
    Note("push", rank);
    PushRequest push = {
        .name_space = "n", .worker = member.worker, .step = member.step};
    int key = plan_.pushes_all_keys_at_once ? 0 : member.num_pushed;
    const int end = plan_.pushes_all_keys_at_once ? kNumKeys : key + 1;
    for (; key < end; ++key) {
      push.entries.push_back(
          {.key = NameOf(key),
           .tensor = Filled(ContributionOf(rank, member.step))});
    }
    if (fails_updates_) backend_.FailApply(absl::InternalError("broken"));
    absl::Status status = absl::UnknownError("no answer");
    store_.Push(std::move(push), {}, [&](absl::StatusOr<PushReply> reply) {
      status = reply.status();
    });
    backend_.FailApply(absl::OkStatus());
    if (ReasonOf(status) == Reason::kTooManyOpenRounds) return BeginPull(rank);
    if (!status.ok()) return Recover(rank, status);
    member.num_pushed = end;
    member.last = std::max(member.last, member.step);
    if (end < kNumKeys) return;
    ++member.step;
    member.num_pushed = 0;
  }

  void BeginPull(uint32_t rank) {
    Member& member = members_[rank];
    Note("pull", rank);
    PullRequest pull = {.name_space = "n", .worker = member.worker};
    for (int key = 0; key < kNumKeys; ++key) {
      pull.entries.push_back({NameOf(key), 0});
    }
    member.pull = std::make_shared<std::optional<absl::StatusOr<PullReply>>>();
    store_.Pull(std::move(pull), {},
                [answer = member.pull](absl::StatusOr<PullReply> reply) {
                  *answer = std::move(reply);
                });
  }

  void EndPull(uint32_t rank) {
    Member& member = members_[rank];
    if (!*member.pull) return CheckMayWait(rank);
    const absl::StatusOr<PullReply> reply = **std::exchange(member.pull, {});
    if (ReasonOf(reply.status()) == Reason::kWorkerLeft) {
      return CheckHaveLeft(rank, reply.status());
    }
    if (!reply.ok()) return Recover(rank, reply.status());
    // A call that pushed a part of a step waited for that part only.
    member.confirmed = std::max(member.confirmed, member.step - 1);
    for (const Value& value : reply->values) {
      EXPECT_GE(value.version, member.step) << "it goes on too early";
    }
  }

  bool HasLeftSince(uint32_t other, uint32_t rank) const {
    return members_[other].state == State::kLeft &&
           members_[other].order > members_[rank].order;
  }

  // Not all others have gone whom it could wait for.
  void CheckMayWait(uint32_t rank) const {
    int num_gone = 0;
    for (uint32_t other = 0; other < kNumWorkers; ++other) {
      num_gone += HasLeftSince(other, rank);
    }
    EXPECT_LT(num_gone, kNumWorkers - 1) << "it waits in vain";
  }

  void CheckHaveLeft(uint32_t rank, const absl::Status& status) {
    Note("hears who has left", rank);
    const std::optional<ErrorInfo> info = ErrorInfoOf(status);
    for (const auto name : absl::StrSplit(info->metadata.at("ranks"), ',')) {
      uint32_t other = 0;
      ASSERT_TRUE(absl::SimpleAtoi(name, &other));
      // Its rank may have been taken since.
      const bool is_there = members_[other].order > members_[rank].order;
      EXPECT_TRUE(is_there) << status;
    }
  }

  void Recover(uint32_t rank, const absl::Status& status) {
    const std::optional<ErrorInfo> info = ErrorInfoOf(status);
    ASSERT_TRUE(info && info->reason == Reason::kRoundFailed) << status;
    Step step = 0;
    ASSERT_TRUE(absl::SimpleAtoi(info->metadata.at("step"), &step));
    GoTo(rank, step);
    Note("goes back", rank);
  }

  // Each key has the sum of all workers' contributions up to its version's
  // step, and of no others.
  void Check() {
    PullRequest pull = {.name_space = "n"};
    for (int key = 0; key < kNumKeys; ++key) {
      pull.entries.push_back({NameOf(key), 0});
    }
    store_.Pull(std::move(pull), {}, [](absl::StatusOr<PullReply> reply) {
      for (const Value& value : reply->values) {
        EXPECT_EQ(value.tensor.elements<double>()[0],
                  ValueAfter(value.version - 1));
      }
    });
  }

  void Note(const std::string& what, uint32_t rank) {
    const Member& member = members_[rank];
    absl::StrAppend(&trace_, rank, " ", what, ", step ", member.step, " key ",
                    member.num_pushed, ", confirmed ", member.confirmed, "\n");
  }

  Plan plan_;
  const Choice choose_;
  bool fails_updates_ = false;
  std::string trace_;
  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 1 << 20}, &backend_, &alarms_};
  std::vector<Member> members_ = std::vector<Member>(kNumWorkers);
  // The life of each rank that has joined last, counted from 1.
  std::vector<int> has_come_ = std::vector<int>(kNumWorkers);
  int last_order_ = 0;
};

TEST(FailingGroupsTest, EveryGroupComesToItsEndAndCountsEveryContribution) {
  constexpr uint32_t kNumSeeds = testing::FewerIfSanitized(1500);
  for (uint32_t seed = 0; seed < kNumSeeds && !::testing::Test::HasFailure();
       ++seed) {
    std::mt19937 random(seed);
    Group group(
        {.pushes_all_keys_at_once = seed % 2 == 0,
         .max_ahead = 1 + seed / 2 % 3,
         .num_failures = static_cast<int>(seed / 6 % 6),
         .num_leaves = static_cast<int>(seed / 36 % 4)},
        [&random](int end) { return static_cast<int>(random() % end); });

    group.Run();

    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed << ":\n" << group.trace();
    }
  }
}

}  // namespace failing_groups_test
}  // namespace tensorkv
