// What Join and KeepAlive tell is what a push may bring: in random schedules of
// groups with and without a quorum, whose updates fail, whose workers are lost,
// leave and come back, and whose configuration changes, no rank that pushes its
// next step hears of a gap.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
namespace next_step_test {

constexpr uint32_t kNumWorkers = 3;
constexpr int kNumKeys = 2;
constexpr absl::Duration kGrace = absl::Seconds(1);

class RandomGroup {
 public:
  explicit RandomGroup(uint32_t seed)
      : is_updated_(seed % 2 > 0), random_(seed) {
    NamespaceConfig config = {.mode = Mode::kSync,
                              .num_workers = kNumWorkers,
                              .rule = {.name = "accumulate"},
                              .max_open_rounds = 2};
    if (Below(3) > 0) {
      config.quorum = 2;
      config.quorum_grace = kGrace;
      config.rescale_partial_rounds = Below(2) == 0;
      if (!config.rescale_partial_rounds && Below(2) == 0) {
        config.late = Late::kCarry;
      }
    }
    if (Below(4) == 0) config.round_timeout = 2 * kGrace;
    if (Below(4) == 0) config.on_worker_loss = OnWorkerLoss::kContinue;
    EXPECT_OK(testing::MakeNow(store_, testing::CreateOf("n", config)));
    InitRequest init = {.name_space = "n"};
    for (int key = 0; key < kNumKeys; ++key) {
      init.entries.push_back({NameOf(key), Filled(0)});
    }
    EXPECT_OK(testing::InitNow(store_, std::move(init)));
  }

  void Run() {
    for (int move = 0; move < 60 && !::testing::Test::HasFailure(); ++move) {
      Move(Below(kNumWorkers));
      for (uint32_t rank = 0; rank < kNumWorkers; ++rank) Check(rank);
    }
  }

  const std::string& trace() const { return trace_; }

 private:
  struct Member {
    std::optional<Worker> worker;
    Step step = 0;
    int num_pushed = 0;  // keys of the step
    Step last = 0;       // the highest that it has pushed any key of
    int life = 0;
  };

  uint32_t Below(uint32_t end) { return random_() % end; }
  static std::string NameOf(int key) { return absl::StrCat("k", key); }
  static Tensor Filled(double value) {
    return *Tensor::Filled(DType::kF64, {1}, value);
  }
  void Note(uint32_t rank, absl::string_view what) {
    absl::StrAppend(&trace_, rank, " ", what, ", step ", members_[rank].step,
                    " key ", members_[rank].num_pushed, "\n");
  }

  void Move(uint32_t rank) {
    if (is_updated_ && Below(20) == 0) return Update();
    Member& member = members_[rank];
    if (!member.worker) return Join(rank);
    switch (Below(10)) {
      case 0:
        Note(rank, "grace ends");
        return alarms_.Advance(kGrace);
      case 1:
        // Who ends within a step fails.
        if (member.step != member.last + 1 || Below(2) > 0) return;
        Note(rank, "leaves");
        EXPECT_OK(testing::MakeNow(
            store_,
            testing::RequestOfMember<LeaveRequest>("n", *member.worker)));
        if (Below(2) == 0) ++member.life;
        member.worker.reset();
        return;
      case 2:
        if (Below(2) > 0) return;
        return Fail(rank);
      default:
        return Push(rank, /*fails=*/Below(4) == 0);
    }
  }

  void Fail(uint32_t rank) {
    Note(rank, "fails");
    EXPECT_OK(testing::MakeNow(
        store_, testing::FailureOf("n", *members_[rank].worker)));
    members_[rank].worker.reset();
  }

  // Changes the quorum, or has the group continue, for a while or for a moment.
  // Before that, all may be lost.
  void Update() {
    const bool all_fail = Below(2) == 0;
    for (uint32_t rank = 0; all_fail && rank < kNumWorkers; ++rank) {
      if (members_[rank].worker) Fail(rank);
    }
    if (Below(3) == 0) {
      return Update({.quorum = Below(kNumWorkers + 1)}, "quorum");
    }
    Update({.on_worker_loss = OnWorkerLoss::kContinue}, "on_worker_loss");
    if (Below(2) > 0) return;
    Update({.on_worker_loss = OnWorkerLoss::kFail}, "on_worker_loss");
  }

  void Update(const NamespaceConfig& config, const std::string& field) {
    const bool continues = config.on_worker_loss == OnWorkerLoss::kContinue;
    absl::StrAppend(&trace_, "update of ", field, ": quorum ", config.quorum,
                    continues ? ", CONTINUE\n" : ", FAIL\n");
    EXPECT_OK(
        testing::MakeNow(store_, testing::UpdateOf("n", config, {field})));
  }

  void Join(uint32_t rank) {
    Member& member = members_[rank];
    const absl::StatusOr<JoinReply> reply = testing::MakeNow(
        store_, testing::JoinOf("n", absl::StrCat(rank, ".", member.life),
                                absl::Hours(1), rank));
    ASSERT_OK(reply);
    member.worker = WorkerOf(reply->worker());
    member.step = reply->next_step();
    member.num_pushed = 0;
    Note(rank, "joins");
  }

  PushRequest PushOf(uint32_t rank, Step step, int key) {
    PushRequest push = {
        .name_space = "n", .worker = members_[rank].worker, .step = step};
    push.entries.push_back({.key = NameOf(key), .tensor = Filled(1)});
    return push;
  }

  void Push(uint32_t rank, bool fails) {
    Member& member = members_[rank];
    Note(rank, fails ? "pushes, and the update fails" : "pushes");
    if (fails) backend_.FailApply(absl::InternalError("broken"));
    absl::Status status;
    store_.Push(
        PushOf(rank, member.step, member.num_pushed), {},
        [&](absl::StatusOr<PushReply> reply) { status = reply.status(); });
    backend_.FailApply(absl::OkStatus());
    const Reason reason = ReasonOf(status);
    EXPECT_NE(reason, Reason::kStepGap) << status;
    if (reason == Reason::kTooManyOpenRounds) return;
    if (!status.ok() && reason != Reason::kStepClosed) {
      member.step = NextStep(rank);
      member.num_pushed = 0;
      return;
    }
    member.last = std::max(member.last, member.step);
    if (++member.num_pushed < kNumKeys) return;
    ++member.step;
    member.num_pushed = 0;
  }

  Step NextStep(uint32_t rank) {
    return testing::MakeNow(store_, testing::RequestOfMember<KeepAliveRequest>(
                                        "n", *members_[rank].worker))
        ->next_step();
  }

  void Check(uint32_t rank) {
    if (!members_[rank].worker) return;
    const Step step = NextStep(rank);
    for (int key = 0; key < kNumKeys; ++key) {
      const absl::Status status = store_.CheckPush(PushOf(rank, step, key), {});
      EXPECT_NE(ReasonOf(status), Reason::kStepGap) << rank << ": " << status;
    }
  }

  const bool is_updated_;
  std::mt19937 random_;
  std::string trace_;
  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 1 << 20}, &backend_, &alarms_};
  std::vector<Member> members_ = std::vector<Member>(kNumWorkers);
};

TEST(NextStepTest, IsNeverAGap) {
  constexpr uint32_t kNumSeeds = testing::FewerIfSanitized(1000);
  for (uint32_t seed = 0; seed < kNumSeeds && !::testing::Test::HasFailure();
       ++seed) {
    RandomGroup group(seed);

    group.Run();

    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed << ":\n" << group.trace();
    }
  }
}

}  // namespace next_step_test
}  // namespace tensorkv
