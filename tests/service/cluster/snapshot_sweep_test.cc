// Shares of snapshots whose makers, or whose homes, have gone.

#include "service/cluster/snapshot_sweep.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "base/listening_sockets.h"
#include "base/mutex.h"
#include "contract/placement.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/cluster/two_servers.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace snapshot_sweep_test {

using testing::Background;
using ::testing::Contains;
using testing::Full;
using testing::HasReason;
using testing::HasReasonAbout;
using testing::HasTensor;
using testing::IsFilledWith;
using ::testing::Pair;
using testing::StatusIs;

// One of the two servers, without what carries calls.
struct OneServer {
  explicit OneServer(const std::string& name) : known(name) {
    EXPECT_OK(known.Set(testing::TwoServers(1), name));
    Restart();
  }
  // It has nothing then.
  void Restart() {
    shares = nullptr;
    store = NewStore();
    shares = store->OpenShares();
  }
  std::unique_ptr<MemoryTensorStore> NewStore() {
    auto made = std::make_unique<MemoryTensorStore>(
        MemoryTensorStoreOptions{.budget_bytes = 1 << 30,
                                 .max_retained_bytes = 1 << 30},
        &backend, &alarms);
    made->NameDefault(7);
    // Whatever it owns, so that tests may have any keys.
    made->Own({.num_partitions = 2, .partitions = {0, 1}});
    return made;
  }

  absl::StatusOr<CreateSnapshotReply> Make(CreateSnapshotRequest request) {
    return Await<CreateSnapshotReply>([&](auto done) {
      store->CreateSnapshot(std::move(request), {.timeout = absl::Seconds(1)},
                            std::move(done));
    });
  }
  absl::StatusOr<CreateSnapshotReply> Make(
      CreateSnapshotRequest::Step step, const CreateSnapshotReply& reserved) {
    CreateSnapshotRequest request;
    request.set_series("s");
    request.set_step(step);
    request.set_number(reserved.number());
    request.set_uid(reserved.uid());
    request.set_keep_last(1);
    if (step == CreateSnapshotRequest::NAME) {
      request.add_shares()->set_server("a");
      request.add_shares()->set_server("b");
    }
    return Make(request);
  }
  absl::StatusOr<CreateSnapshotReply> Reserve() {
    CreateSnapshotRequest request;
    request.set_series("s");
    request.set_step(CreateSnapshotRequest::RESERVE);
    return Make(request);
  }
  // Reads the snapshot, or the share of that uid.
  absl::Status Find(uint64_t number, uint64_t uid = 0,
                    const std::string& name_space = "") {
    DescribeSnapshotRequest request;
    request.set_namespace_(name_space);
    *request.mutable_at() = SnapshotOf("s", number);
    request.mutable_at()->set_uid(uid);
    return Await<DescribeSnapshotReply>([&](auto done) {
             store->DescribeSnapshot(request, {}, std::move(done));
           })
        .status();
  }
  absl::Status Find(const CreateSnapshotReply& reserved) {
    return Find(reserved.number(), reserved.uid());
  }

  CpuBackend backend{/*num_threads=*/1};
  FakeAlarms alarms;
  KnownPlacement known;
  std::unique_ptr<MemoryTensorStore> store;
  std::unique_ptr<SnapshotShares> shares;
};

class SnapshotSweepTest : public ::testing::Test, private SharePeers {
 protected:
  SnapshotSweepTest() {
    const ClusterPlacement placement = testing::TwoServers(1);
    const bool is_a =
        placement.servers[OwnerOf(placement, "default", "")].name == "a";
    home_ = is_a ? &a_ : &b_;
    other_ = is_a ? &b_ : &a_;
  }

  // Has both sweep.
  void Sweep() {
    for (OneServer* const each : {home_, other_}) {
      SweepShares(each->known, *this, *each->shares);
    }
  }
  // Reserves a number and prepares both shares.
  CreateSnapshotReply Prepare() {
    const CreateSnapshotReply reserved = home_->Reserve().value();
    for (OneServer* const each : {home_, other_}) {
      EXPECT_OK(each->Make(CreateSnapshotRequest::PREPARE, reserved));
    }
    return reserved;
  }
  CreateSnapshotReply Take() {
    const CreateSnapshotReply reserved = Prepare();
    EXPECT_OK(home_->Make(CreateSnapshotRequest::NAME, reserved));
    return reserved;
  }

  // Has the other server take snapshots 1 of the default namespace, and of one
  // that has the same home by another partition, whose name it returns.
  std::string TakeInTwoNamespaces() {
    const ClusterPlacement placement = testing::TwoServers(1);
    const auto is_like_default = [&](const std::string& name_space) {
      return OwnerOf(placement, name_space, "") ==
                 OwnerOf(placement, "default", "") &&
             PartitionOf(name_space, "", 8) != PartitionOf("default", "", 8);
    };
    std::string same_home = "n";
    while (!is_like_default(same_home)) same_home += "n";
    EXPECT_OK(testing::MakeNow(*other_->store, testing::CreateOf(same_home)));
    for (const std::string& name_space : {std::string(), same_home}) {
      CreateSnapshotRequest request;
      request.set_namespace_(name_space);
      request.set_series("s");
      EXPECT_OK(other_->Make(request));
    }
    return same_home;
  }

  OneServer a_{"a"};
  OneServer b_{"b"};
  OneServer* home_;
  OneServer* other_;
  bool is_reachable_ = true;
  int num_asked_ = 0;

 private:
  absl::StatusOr<v1::CheckSharesResponse> Ask(
      const ClusterServer& home,
      const v1::CheckSharesRequest& request) override {
    return AskOne(home, request);
  }
  absl::StatusOr<v1::FindSharesResponse> Ask(
      const ClusterServer& server,
      const v1::FindSharesRequest& request) override {
    return AskOne(server, request);
  }
  template <typename Request>
  auto AskOne(const ClusterServer& server, const Request& request)
      -> decltype(AnswerAboutShares(a_.known, request, *a_.shares)) {
    ++num_asked_;
    if (!is_reachable_) return absl::UnavailableError("nobody is there");
    OneServer& asked = server.name == "a" ? a_ : b_;
    return AnswerAboutShares(asked.known, request, *asked.shares);
  }
};

TEST_F(SnapshotSweepTest, WhatIsPreparedStaysAsLongAsItMayBeNamed) {
  const CreateSnapshotReply reserved = Prepare();
  Sweep();
  EXPECT_OK(home_->Find(reserved));
  EXPECT_OK(other_->Find(reserved));
  EXPECT_THAT(home_->Find(reserved.number()),
              HasReason(Reason::kSnapshotNotFound));

  home_->alarms.Advance(absl::Seconds(61));
  EXPECT_THAT(home_->Make(CreateSnapshotRequest::NAME, reserved).status(),
              StatusIs(absl::StatusCode::kNotFound));
  Sweep();
  EXPECT_THAT(home_->Find(reserved), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(other_->Find(reserved), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(SnapshotSweepTest, WhatIsPreparedLateGoes) {
  const CreateSnapshotReply reserved = home_->Reserve().value();
  home_->alarms.Advance(absl::Seconds(61));
  for (OneServer* const each : {home_, other_}) {
    EXPECT_OK(each->Make(CreateSnapshotRequest::PREPARE, reserved));
  }
  Sweep();
  EXPECT_THAT(home_->Find(reserved), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(other_->Find(reserved), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(SnapshotSweepTest, WhatIsNamedStaysUntilTheHomeLetsItGo) {
  const CreateSnapshotReply first = Take();
  home_->alarms.Advance(absl::Hours(2));
  Sweep();
  EXPECT_OK(home_->Find(first.number()));
  EXPECT_OK(other_->Find(first));

  // The second takes its place, and nobody tells the other server.
  const CreateSnapshotReply second = Take();
  EXPECT_OK(other_->Find(first));
  Sweep();
  EXPECT_THAT(other_->Find(first), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(other_->Find(second));
}

TEST_F(SnapshotSweepTest, AServerThatCannotBeReachedLeavesAllAsItIs) {
  const CreateSnapshotReply taken = Take();
  const CreateSnapshotReply reserved = Prepare();
  home_->alarms.Advance(absl::Hours(2));
  is_reachable_ = false;
  Sweep();
  EXPECT_OK(home_->Find(taken.number()));
  EXPECT_OK(other_->Find(reserved));
  // It has another home by then, which does not know so yet.
  is_reachable_ = true;
  home_->known.LoseName();
  Sweep();
  EXPECT_OK(other_->Find(reserved));
}

TEST_F(SnapshotSweepTest, AHomeThatWasStartedAnewNamesNothing) {
  const CreateSnapshotReply taken = Take();
  home_->Restart();
  Sweep();
  EXPECT_THAT(other_->Find(taken), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(SnapshotSweepTest, WhatAServerHadThatWasStartedAnewIsLost) {
  const CreateSnapshotReply taken = Take();
  other_->Restart();
  Sweep();
  EXPECT_THAT(home_->Find(taken.number()),
              HasReasonAbout(Reason::kSnapshotLost,
                             Contains(Pair("cause", "share_lost"))));
  EXPECT_THAT(home_->Find(taken), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(SnapshotSweepTest, WhatAServerHadThatWasRemovedIsLost) {
  const CreateSnapshotReply taken = Take();
  ClusterPlacement without_other = testing::TwoServers(2);
  const std::string name = home_->known.view()->server_name();
  std::erase_if(without_other.servers,
                [&](const ClusterServer& each) { return each.name != name; });
  without_other.owners.assign(without_other.owners.size(), 0);
  ASSERT_OK(home_->known.Set(without_other, name));
  Sweep();
  EXPECT_THAT(home_->Find(taken.number()), HasReason(Reason::kSnapshotLost));
}

TEST_F(SnapshotSweepTest, AServerThatDoesNotAnswerIsAskedOnce) {
  TakeInTwoNamespaces();
  is_reachable_ = false;
  Sweep();
  EXPECT_EQ(num_asked_, 1);
}

TEST_F(SnapshotSweepTest, AServerThatCannotAnswerAboutOneNamespaceIsAskedOn) {
  const std::string name_space = TakeInTwoNamespaces();
  ClusterPlacement placement = testing::TwoServers(2);
  placement.lost.push_back(
      {.server = "c", .partitions = {PartitionOf("default", "", 8)}});
  ASSERT_OK(home_->known.Set(placement, home_->known.view()->server_name()));
  Sweep();
  EXPECT_OK(other_->Find(1));
  EXPECT_THAT(other_->Find(1, 0, name_space), HasReason(Reason::kSnapshotLost));
}

TEST_F(SnapshotSweepTest, AHomeThatIsClosedForAMoveLeavesAllAsItIs) {
  const CreateSnapshotReply reserved = Prepare();
  home_->alarms.Advance(absl::Hours(2));
  ASSERT_OK(home_->store->Fence({.num_partitions = 2, .partitions = {0, 1}},
                                [] { return absl::OkStatus(); }));
  home_->store->FenceReads();
  Sweep();
  EXPECT_OK(home_->Find(reserved));
  EXPECT_OK(other_->Find(reserved));

  home_->store->Unfence();
  Sweep();
  EXPECT_THAT(other_->Find(reserved), StatusIs(absl::StatusCode::kNotFound));
}

// It would hold up the end of its server.
TEST(ConnectedSharePeersTest, NothingIsAskedOnceTheyAreCancelled) {
  ASSERT_OK_AND_ASSIGN(const ListeningSockets silent,
                       ListeningSockets::Open("127.0.0.1:0"));
  Notification asked;
  ConnectedSharePeers peers([&](const std::string& address) {
    asked.Notify();
    return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  });
  const ClusterServer server = {
      .name = "a", .address = absl::StrCat("127.0.0.1:", silent.port())};
  Background question(
      [&] { return peers.Ask(server, v1::CheckSharesRequest()).status(); });
  asked.WaitForNotification();
  peers.Cancel();
  EXPECT_THAT(question.Result(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(SnapshotSweepTest, TheHomeFollowsAServerThatHasNoRoom) {
  constexpr int64_t kElements = 1 << 20;
  ASSERT_OK(testing::InitNow(*other_->store,
                             {.entries = {{"k", Full({kElements}, 1)}}}));
  const CreateSnapshotReply taken = Take();
  UpdateNamespaceRequest update;
  update.set_namespace_("default");
  update.mutable_update_mask()->add_paths("max_retained_bytes");
  update.mutable_config()->set_max_retained_bytes(1000);
  ASSERT_OK(Await<UpdateNamespaceReply>([&](auto done) {
    other_->store->UpdateNamespace(update, {}, std::move(done));
  }));
  ASSERT_OK(Await<PushReply>([&](auto done) {
    other_->store->Push(
        {.entries = {{.key = "k", .tensor = Full({kElements}, 2)}}}, {},
        std::move(done));
  }));

  EXPECT_THAT(other_->Find(taken), HasReason(Reason::kSnapshotLost));
  // What would be taken now is not what was.
  EXPECT_THAT(other_->Make(CreateSnapshotRequest::PREPARE, taken).status(),
              HasReason(Reason::kSnapshotLost));
  EXPECT_OK(home_->Find(taken.number()));
  Sweep();
  EXPECT_THAT(home_->Find(taken.number()),
              HasReasonAbout(Reason::kSnapshotLost,
                             Contains(Pair("cause", "share_lost"))));
}

TEST_F(SnapshotSweepTest, ANumberThatIsGivenUpIsGivenAgainWhateverHasStayed) {
  const CreateSnapshotReply first = Prepare();
  DeleteSnapshotRequest drop;
  drop.add_uids(first.uid());
  ASSERT_OK(Await<DeleteSnapshotReply>([&](auto done) {
    home_->store->DeleteSnapshot(drop, {}, std::move(done));
  }));

  const CreateSnapshotReply second = Take();
  EXPECT_EQ(second.number(), first.number());
  EXPECT_OK(other_->Find(first));
  EXPECT_OK(other_->Find(second));
  EXPECT_THAT(home_->Make(CreateSnapshotRequest::NAME, first).status(),
              StatusIs(absl::StatusCode::kNotFound));
  Sweep();
  EXPECT_THAT(other_->Find(first), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(other_->Find(second));
}

TEST_F(SnapshotSweepTest, AShareHasBothPartsOfACallThatComesInTwo) {
  const CreateSnapshotReply reserved = home_->Reserve().value();
  MemoryTensorStore& store = *home_->store;
  const auto push = [&](const std::string& key, double value, bool is_part) {
    PushRequest request = {
        .entries = {{.key = key, .tensor = Full({2}, value)}}};
    if (is_part) {
      request.publish_as.emplace();
      request.publish_as->set_series("s");
      request.publish_as->set_number(reserved.number());
      request.publish_as->set_uid(reserved.uid());
    }
    EXPECT_OK(Await<PushReply>(
        [&](auto done) { store.Push(request, {}, std::move(done)); }));
  };
  for (const std::string key : {"a", "b"}) {
    ASSERT_OK(testing::InitNow(store, {.entries = {{key, Full({2}, 1)}}}));
    push(key, 2, /*is_part=*/true);
    push("a", 3, /*is_part=*/false);
  }
  ASSERT_OK(home_->Make(CreateSnapshotRequest::PREPARE, reserved));
  ASSERT_OK(home_->Make(CreateSnapshotRequest::NAME, reserved));

  ASSERT_OK_AND_ASSIGN(
      const PullReply read, Await<PullReply>([&](auto done) {
        store.Pull({.entries = {{"a"}, {"b"}}, .at = SnapshotOf("s", 1)}, {},
                   std::move(done));
      }));
  EXPECT_THAT(read.values[0], HasTensor(IsFilledWith(3)));
  EXPECT_THAT(read.values[1], HasTensor(IsFilledWith(2)));
}

}  // namespace snapshot_sweep_test
}  // namespace tensorkv
