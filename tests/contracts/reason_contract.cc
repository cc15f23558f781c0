// Every reason comes with just the metadata that error.proto lists for it.

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "contract/reason.h"
#include "tensorkv/v1/error.pb.h"
#include "tests/contracts/random_rows.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace reason_contract {

using rows_contract::IdsOf;

// What a call ends with that was made to fail for a reason.
struct Scenario {
  Reason reason;
  std::function<absl::Status(const Caller& store, Connection& connection)>
      status;
};

// A namespace of its own with the key "w", f32[2] of zeros.
Caller NamespaceWithKey(const Caller& store, const std::string& name,
                        const NamespaceConfig& config = {}) {
  const Caller caller = store.In(name);
  EXPECT_OK(caller.Create(config));
  EXPECT_OK(caller.Init("w", Full({2}, 0)));
  return caller;
}

// The same for a group.
Caller GroupWithKey(const Caller& store, const std::string& name,
                    uint32_t num_workers, NamespaceConfig config = {}) {
  config.mode = Mode::kSync;
  config.num_workers = num_workers;
  return NamespaceWithKey(store, name, config);
}

// The index of its one element is above all that there are.
PushEntry EncodedEntry() {
  const Packing top_k = {.kind = PackingKind::kTopK, .count = 1};
  PushEntry entry = {.key = "w", .tensor = Full({12}, 255, DType::kU8)};
  entry.encoding =
      Encoding::Create(top_k, DType::kF32, *Shape::Create({2})).value();
  return entry;
}

std::vector<Scenario> NamespacesAndKeys() {
  return {
      {Reason::kNamespaceNotFound,
       [](auto& store, auto&) { return store.In("none").Describe().status(); }},
      {Reason::kNamespaceExists,
       [](auto& store, auto&) {
         NamespaceWithKey(store, "n1");
         return store.In("n1").Create({});
       }},
      {Reason::kExistsDifferently,
       [](auto& store, auto&) {
         NamespaceWithKey(store, "n2");
         return store.In("n2").Create({.mode = Mode::kSync, .num_workers = 1},
                                      OnExisting::kKeep);
       }},
      {Reason::kExistsDifferently,
       [](auto& store, auto&) {
         return NamespaceWithKey(store, "n3")
             .Init("w", Full({3}, 0), OnExisting::kKeep)
             .status();
       }},
      {Reason::kNamespaceReplaced,
       [](auto& store, auto& connection) {
         const Caller n = NamespaceWithKey(store, "n4");
         const uint64_t uid = n.Describe()->uid();
         EXPECT_OK(n.Drop());
         NamespaceWithKey(store, "n4");
         return connection
             .Call(PullRequest{.name_space = "n4",
                               .entries = {{"w"}},
                               .namespace_uid = uid},
                   {})
             .status();
       }},
      {Reason::kKeyNotFound,
       [](auto& store, auto&) { return store.Pull("none").status(); }},
      {Reason::kKeyExists,
       [](auto& store, auto&) {
         return NamespaceWithKey(store, "n5").Init("w", Full({2}, 0)).status();
       }},
      {Reason::kRuleNotFound,
       [](auto& store, auto&) { return store.UnsetRule("none.*"); }},
      {Reason::kStateNotFound,
       [](auto& store, auto&) {
         return NamespaceWithKey(store, "n6").GetState("w", "none").status();
       }},
      {Reason::kRowOutOfRange,
       [](auto& store, auto&) {
         return NamespaceWithKey(store, "n7")
             .PullRows({{"w", 0, IdsOf({2})}})
             .status();
       }},
  };
}

std::vector<Scenario> Workers() {
  return {
      {Reason::kNotMember,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m1", 2);
         EXPECT_OK(group.Join("a"));
         return group.As({1, 7}).Push("w", Full({2}, 1), 1).status();
       }},
      {Reason::kLeaseLost,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m2", 1);
         const Caller worker = group.Join("a").value();
         const Worker other = {0, worker.worker().epoch + 1};
         return group.As(other).KeepAlive().status();
       }},
      {Reason::kWorkerNameTaken,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m3", 2);
         EXPECT_OK(group.Join("a"));
         return group.Join("a").status();
       }},
      {Reason::kGroupFull,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m4", 1);
         EXPECT_OK(group.Join("a"));
         return group.Join("b").status();
       }},
      {Reason::kGroupDoesNotJoin,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m5", 2);
         EXPECT_OK(group.As(0).Push("w", Full({2}, 1), 1));
         return group.Join("a").status();
       }},
      {Reason::kGroupDoesNotJoin,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m6", 2);
         EXPECT_OK(group.As(0).Push("w", Full({2}, 1), 1));
         return group.As({1, 7}).Push("w", Full({2}, 1), 1).status();
       }},
      {Reason::kWorkerLost,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m7", 2);
         const Caller worker = group.Join("a").value();
         EXPECT_OK(group.Join("b", absl::Milliseconds(100)));
         return worker.Barrier("all");
       }},
      {Reason::kWorkerLeft,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m8", 2);
         const Caller worker = group.Join("a").value();
         EXPECT_OK(worker.Push("w", Full({2}, 1), 1));
         EXPECT_OK(group.Join("b")->Leave());
         return worker.Pull("w").status();
       }},
      {Reason::kWorkerLeft,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "m9", 2);
         const Caller worker = group.Join("a").value();
         EXPECT_OK(group.Join("b")->Leave());
         return worker.Barrier("all");
       }},
  };
}

std::vector<Scenario> Rounds() {
  return {
      {Reason::kRoundFailed,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "r1", 2);
         const Caller worker = group.Join("a").value();
         EXPECT_OK(group.Join("b", absl::Milliseconds(100)));
         EXPECT_OK(worker.Push("w", Full({2}, 1), 1));
         return worker.Pull("w").status();
       }},
      {Reason::kStepClosed,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "r2", 2);
         for (const uint32_t rank : {0, 1}) {
           EXPECT_OK(group.As(rank).Push("w", Full({2}, 1), 2));
         }
         return group.As(0).Push("w", Full({2}, 1), 1).status();
       }},
      {Reason::kStepGap,
       [](auto& store, auto&) {
         return GroupWithKey(store, "r3", 2)
             .As(0)
             .Push("w", Full({2}, 1), 100)
             .status();
       }},
      {Reason::kContributionExists,
       [](auto& store, auto&) {
         const Caller worker = GroupWithKey(store, "r4", 2).As(0);
         EXPECT_OK(worker.Push("w", Full({2}, 1), 1));
         return worker.Push("w", Full({2}, 1), 1).status();
       }},
      {Reason::kTooManyOpenRounds,
       [](auto& store, auto&) {
         const Caller worker =
             GroupWithKey(store, "r5", 2, {.max_open_rounds = 1}).As(0);
         EXPECT_OK(worker.Push("w", Full({2}, 1), 1));
         return worker.Push("w", Full({2}, 1), 2).status();
       }},
      {Reason::kKeyReplaced,
       [](auto& store, auto&) {
         const Caller group = GroupWithKey(store, "r6", 2);
         const Caller worker = group.Join("a").value();
         EXPECT_OK(worker.Push("w", Full({2}, 1), 1));
         absl::Status ended;
         RunConcurrently(2, [&](int thread) {
           if (thread == 0) {
             ended = worker.Pull("w").status();
             return;
           }
           EXPECT_TRUE(Eventually([&] {
             const absl::StatusOr<NamespaceStatus> status = group.Describe();
             uint64_t waiting = 0;
             for (const v1::WaitStatus& wait : status->waits()) {
               waiting += wait.calls_waiting();
             }
             return waiting > 0;
           }));
           EXPECT_OK(group.Init("w", Full({2}, 1), OnExisting::kReplace));
         });
         return ended;
       }},
      {Reason::kWaitEnded,
       [](auto& store, auto&) {
         return EndOfWait(
             store, [](auto& store) { return store.Await("none").status(); });
       }},
      {Reason::kWaitEnded,
       [](auto& store, auto&) {
         return EndOfWait(NamespaceWithKey(store, "r7"), [](auto& caller) {
           return caller.Pull("w", 9).status();
         });
       }},
      {Reason::kWaitEnded,
       [](auto& store, auto&) {
         const Caller worker = GroupWithKey(store, "r8", 2).As(0);
         EXPECT_OK(worker.Push("w", Full({2}, 1), 1));
         return EndOfWait(
             worker, [](auto& worker) { return worker.Pull("w").status(); });
       }},
      {Reason::kWaitEnded,
       [](auto& store, auto&) {
         const Caller worker = GroupWithKey(store, "r9", 2).Join("a").value();
         return EndOfWait(worker,
                          [](auto& worker) { return worker.Barrier("all"); });
       }},
  };
}

std::vector<Scenario> Calls() {
  return {
      {Reason::kContributionNotFinite,
       [](auto& store, auto&) {
         const GradientGuard guard = {.on_non_finite = OnNonFinite::kRefuse};
         return NamespaceWithKey(store, "c1", {.gradient_guard = guard})
             .Push("w", Full({2}, NAN))
             .status();
       }},
      {Reason::kContributionTooLarge,
       [](auto& store, auto&) {
         const GradientGuard guard = {.max_norm = 1,
                                      .on_large_norm = OnLargeNorm::kRefuse};
         return GroupWithKey(store, "c2", 1, {.gradient_guard = guard})
             .As(0)
             .Push("w", Full({2}, 9), 1)
             .status();
       }},
      {Reason::kCallIdReused,
       [](auto& store, auto& connection) {
         NamespaceWithKey(store, "c3");
         InitRequest request = {.name_space = "c3",
                                .call_id = CallId{"client", 1},
                                .entries = {{"a", Full({2}, 1)}}};
         EXPECT_OK(connection.Call(request, {}));
         request.entries[0].key = "b";
         return connection.Call(request, {}).status();
       }},
      {Reason::kOutcomeUnknown,
       [](auto&, auto& connection) {
         InitRequest request = {.call_id = CallId{"client", 2, 2},
                                .entries = {{"c6", Full({2}, 1)}}};
         EXPECT_OK(connection.Call(request, {}));
         request.call_id = CallId{"client", 1, 1};
         return connection.Call(request, {}).status();
       }},
      {Reason::kLimitReached,
       [](auto&, auto& connection) {
         const InitRequest request = {
             .call_id = CallId{"client", 1 + kMaxCallsUnderWay, 1},
             .entries = {{"c7", Full({2}, 1)}}};
         return connection.Call(request, {}).status();
       }},
      {Reason::kOverBudget,
       [](auto& store, auto&) {
         return store.In("c4").Create({.budget_bytes = uint64_t{1} << 60});
       }},
      {Reason::kEncodingMalformed,
       [](auto& store, auto&) {
         return NamespaceWithKey(store, "c5")
             .PushMany({EncodedEntry()})
             .status();
       }},
  };
}

// Those that no call to a store in working order ends with, and whose tests
// expect them.
const std::set<Reason>& TestedElsewhere() {
  static const auto* const reasons = new std::set<Reason>{
      // tests/service/store
      Reason::kReplyTooLarge, Reason::kServerStopping,
      // tests/service/rpc
      Reason::kStripeFailed, Reason::kStripeExists, Reason::kPeerTooSlow,
      Reason::kNoTicket,
      // snapshot_contract.cc: for one server
      Reason::kSnapshotNotFound, Reason::kSnapshotLost,
      Reason::kSnapshotNumberPassed, Reason::kSnapshotConflict,
      // watch_contract.cc
      Reason::kRevisionCompacted,
      // tests/service/checkpoint
      Reason::kServerRestarted,
      // pushed_deltas_contract.cc: not on a device
      Reason::kBaseChanged, Reason::kDeltaMalformed,
      // tests/contract
      Reason::kEncodingUnknown,
      // tests/kernels
      Reason::kDeviceFailed,
      // tests/service/security
      Reason::kUnauthenticated, Reason::kPermissionDenied,
      // tests/service/cluster
      Reason::kWrongServer, Reason::kKeyMoving, Reason::kKeyNotRestored};
  return *reasons;
}

std::vector<Scenario> AllScenarios() {
  std::vector<Scenario> all = NamespacesAndKeys();
  for (const auto& more : {Workers(), Rounds(), Calls()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

TEST_P(ReasonContractTest, ComesWithTheMetadataThatIsListed) {
  for (const Scenario& scenario : AllScenarios()) {
    EXPECT_THAT(scenario.status(store_, connection()),
                HasReason(scenario.reason));
  }
}

TEST(ReasonCoverageTest, EveryReasonHasATest) {
  std::set<Reason> tested = TestedElsewhere();
  for (const Scenario& scenario : AllScenarios()) {
    tested.insert(scenario.reason);
  }
  const auto* const reasons = v1::Reason_descriptor();
  for (int i = 1; i < reasons->value_count(); ++i) {
    const auto& reason = *reasons->value(i);
    EXPECT_TRUE(tested.contains(static_cast<Reason>(reason.number())))
        << reason.name() << ": expected a scenario above, got none";
  }
}

}  // namespace reason_contract
}  // namespace tensorkv::testing
