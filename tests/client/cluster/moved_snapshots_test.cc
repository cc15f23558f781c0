// Snapshots of three servers while partitions move.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/status_macros.h"
#include "client/cluster/cluster_connection.h"
#include "contract/reason.h"
#include "tests/client/cluster/cluster_snapshots_fixture.h"
#include "tests/client/shared_connection.h"

namespace tensorkv::testing {
namespace moved_snapshots_test {

// Moves partitions at the first PREPARE, which is after a call has taken its
// own shares, and counts what it takes to publish it.
class MovedMeanwhileTest : public ClusterSnapshotsTest {
 protected:
  // A connection to one server.
  class Moving final : public SharedConnection {
   public:
    Moving(std::unique_ptr<Connection> inner, MovedMeanwhileTest* test)
        : SharedConnection(*inner), inner_(std::move(inner)), test_(*test) {}

    absl::Status Attempt(const AnyCall& call,
                         const CallOptions& options) override {
      const bool prepares =
          call.Visit([this](const auto& request, const auto&) {
            return test_.Count(request) == CreateSnapshotRequest::PREPARE;
          });
      std::optional<absl::Status> first;
      if (prepares) {
        // Others wait until it has moved them.
        std::call_once(test_.has_moved_, [&] {
          if (test_.moves_after_first_) {
            first = SharedConnection::Attempt(call, options);
          }
          test_.move_();
        });
      }
      return first ? *first : SharedConnection::Attempt(call, options);
    }

   private:
    const std::unique_ptr<Connection> inner_;
    MovedMeanwhileTest& test_;
  };

  MovedMeanwhileTest() {
    for (const std::string& key : keys_) {
      EXPECT_OK(Store().Init(key, Full({kElements}, 1)));
    }
    const auto connect = [this](const std::string& address,
                                std::shared_ptr<ServerIncarnation> known)
        -> absl::StatusOr<std::unique_ptr<Connection>> {
      ASSIGN_OR_RETURN(
          std::unique_ptr<Connection> connection,
          GrpcConnection::Create({.target = address, .server = known}));
      return std::make_unique<Moving>(std::move(connection), this);
    };
    connection_ = std::make_unique<ClusterConnection>(ClusterServersOptions{
        .addresses = {cluster_.address(0)}, .connect = connect});
  }

  // Returns the step of a CreateSnapshot; of other calls none.
  template <typename Request>
  CreateSnapshotRequest::Step Count(const Request& request) {
    if constexpr (std::is_same_v<Request, CreateSnapshotRequest>) {
      if (request.step() == CreateSnapshotRequest::RESERVE) ++num_reserved_;
      return request.step();
    } else {
      if constexpr (requires { request.publish_as; }) {
        if (request.publish_as) ++num_parts_;
      }
      return CreateSnapshotRequest::STEP_UNSPECIFIED;
    }
  }
  size_t NumSnapshots() {
    return Store().Call(ListSnapshotsRequest())->snapshots().size();
  }

  absl::AnyInvocable<void()> move_ = [this] { MoveAllButHome(); };
  // The server that is asked first has its share by then, if no earlier.
  bool moves_after_first_ = false;
  std::once_flag has_moved_;
  // The reservations, and the parts of calls at the servers.
  std::atomic<int> num_reserved_ = 0;
  std::atomic<int> num_parts_ = 0;
};

TEST_F(MovedMeanwhileTest, SharesThatWereTakenBeforeStay) {
  EXPECT_THAT(Publish(2), IsOkAndHolds(1));
  ExpectHas(2, SnapshotOf("s", 1));
  EXPECT_EQ(num_reserved_, 1);
}

TEST_F(MovedMeanwhileTest, WhatKeepsAStateIsPublishedAgain) {
  // A server has no part in the call.
  keys_.clear();
  InitRequest init = {.on_existing = OnExisting::kKeep,
                      .publish_as = PublicationOf()};
  for (size_t i = 0; i < kNumServers; ++i) {
    if (i == other()) continue;
    keys_.push_back(cluster_.KeyOf(i, "", /*number=*/7));
    init.entries.push_back({keys_.back(), Full({kElements}, 2)});
  }

  ASSERT_OK_AND_ASSIGN(const InitReply reply, Store().Call(init));

  EXPECT_EQ(reply.published->number, 1);
  EXPECT_EQ(num_reserved_, 2);
  ExpectHas(2, SnapshotOf("s", 1));
  EXPECT_EQ(NumSnapshots(), 1);
}

TEST_F(MovedMeanwhileTest, WhatReplacesAStateIsMadeOnceAndItsOutcomeUnknown) {
  keys_.erase(keys_.begin() + static_cast<int>(other()));
  EXPECT_THAT(Publish(2), HasReason(Reason::kOutcomeUnknown));
  EXPECT_EQ(num_parts_, keys_.size());
  EXPECT_EQ(NumSnapshots(), 0);
}

TEST_F(MovedMeanwhileTest, APushIsMadeOnceAndItsOutcomeUnknown) {
  PushRequest push = {.publish_as = PublicationOf()};
  push.entries = {{.key = keys_[home()], .tensor = Full({kElements}, 2)}};
  EXPECT_THAT(Store().Call(push), HasReason(Reason::kOutcomeUnknown));
  EXPECT_EQ(num_parts_, 1);
  EXPECT_EQ(NumSnapshots(), 0);
}

TEST_F(MovedMeanwhileTest, ASnapshotOfNoCallIsTakenAnew) {
  moves_after_first_ = true;
  CreateSnapshotRequest create;
  create.set_series("s");
  ASSERT_OK_AND_ASSIGN(const CreateSnapshotReply taken, Store().Call(create));
  EXPECT_EQ(taken.number(), 1);
  EXPECT_EQ(num_reserved_, 2);
  EXPECT_EQ(NumSnapshots(), 1);
}

TEST_F(MovedMeanwhileTest, AServerThatHasNothingAnyMoreKeepsNoShare) {
  const auto from = static_cast<uint32_t>(other());
  const auto to = static_cast<uint32_t>((other() + 1) % kNumServers);
  move_ = [this, from, to] {
    std::vector<uint32_t> owners = cluster_.placement().owners;
    std::replace(owners.begin(), owners.end(), from, to);
    cluster_.SetOwners(owners);
  };
  PushRequest push = {.publish_as = PublicationOf()};
  push.entries = {{.key = keys_[from], .tensor = Full({kElements}, 2)}};

  ASSERT_OK_AND_ASSIGN(const PushReply pushed, Store().Call(push));

  EXPECT_EQ(pushed.published->number, 1);
  DescribeSnapshotRequest describe;
  *describe.mutable_at() = SnapshotOf("s", 1);
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply told,
                       Store().Call(describe));
  EXPECT_EQ(told.snapshot().servers_size(), kNumServers - 1);
  describe.mutable_at()->set_uid(told.snapshot().uid());
  EXPECT_OK(At(to).Call(describe));
  EXPECT_THAT(At(from).Call(describe), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace moved_snapshots_test
}  // namespace tensorkv::testing
