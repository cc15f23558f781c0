// A namespace with workers, on a time that the test moves.

#ifndef TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_WORKERS_WORKERS_OF_STORE_H_
#define TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_WORKERS_WORKERS_OF_STORE_H_

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv::namespace_members_test {

inline constexpr absl::Duration kLease = absl::Seconds(2);

using testing::First;
using testing::Inbox;

class WorkersOfStoreTest : public testing::ScriptedStoreTest {
 protected:
  // A namespace "n" with a key "w" of zeros.
  void Create(NamespaceConfig config) {
    config.rule.name = "accumulate";
    ASSERT_OK(testing::MakeNow(store_, testing::CreateOf("n", config)));
    AddKey("w");
  }
  void CreateSync(uint32_t num_workers,
                  OnWorkerLoss on_loss = OnWorkerLoss::kFail) {
    Create({.mode = Mode::kSync,
            .num_workers = num_workers,
            .on_worker_loss = on_loss});
  }

  absl::StatusOr<JoinReply> TryJoin(const std::string& name,
                                    absl::Duration lease = kLease) {
    return testing::MakeNow(store_, testing::JoinOf("n", name, lease));
  }
  Worker Join(const std::string& name) {
    return WorkerOf(TryJoin(name)->worker());
  }
  absl::Status KeepAlive(const Worker& worker) {
    return testing::MakeNow(
               store_, testing::RequestOfMember<KeepAliveRequest>("n", worker))
        .status();
  }
  absl::Status Leave(const Worker& worker) {
    return testing::MakeNow(
        store_, testing::RequestOfMember<LeaveRequest>("n", worker));
  }
  // Moves the time past the lease of all workers but `survivors`.
  void LoseAllBut(const std::vector<Worker>& survivors) {
    alarms_.Advance(kLease - absl::Milliseconds(100));
    for (const Worker& worker : survivors) ASSERT_OK(KeepAlive(worker));
    alarms_.Advance(absl::Milliseconds(200));
  }

  PushRequest PushOf(const Worker& worker, Step step, double value) {
    PushRequest request = ScriptedStoreTest::PushOf("w", value);
    request.name_space = "n";
    request.worker = worker;
    request.step = step;
    return request;
  }
  absl::StatusOr<PushReply> Push(const Worker& worker, Step step,
                                 double value = 1) {
    Inbox<PushReply> inbox;
    store_.Push(PushOf(worker, step, value), {}, inbox.Callback());
    return inbox.Wait();
  }
  void StartPull(const Worker& worker, Inbox<PullReply>& inbox,
                 absl::Duration timeout = absl::InfiniteDuration()) {
    PullRequest request = PullOf("w");
    request.name_space = "n";
    request.worker = worker;
    store_.Pull(std::move(request), {.timeout = timeout}, inbox.Callback());
  }
  void StartBarrier(const Worker& worker, Inbox<BarrierReply>& inbox,
                    absl::Duration timeout = absl::InfiniteDuration()) {
    store_.Barrier(testing::BarrierOf("n", worker, "b"), {.timeout = timeout},
                   inbox.Callback());
  }
  void AddKey(const std::string& key) {
    InitRequest init;
    init.name_space = "n";
    init.entries.push_back({key, testing::Filled(0)});
    ASSERT_OK(testing::InitNow(store_, std::move(init)));
  }
  float Value() {
    PullRequest request = PullOf("w");
    request.name_space = "n";
    Inbox<PullReply> inbox;
    store_.Pull(std::move(request), {}, inbox.Callback());
    return First(*inbox.Wait());
  }
  NamespaceStatus Describe() { return testing::Described(store_, "n"); }
  uint64_t NumWaiting(WaitReason reason) {
    return Describe().waits(static_cast<int>(reason)).calls_waiting();
  }
};

}  // namespace tensorkv::namespace_members_test

#endif  // TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_WORKERS_WORKERS_OF_STORE_H_
