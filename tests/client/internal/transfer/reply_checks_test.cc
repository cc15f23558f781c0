#include "client/internal/transfer/reply_checks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ReplyChecksTest, JoinNeedsAWorkerOfARank) {
  JoinReply reply;

  EXPECT_THAT(CheckFields(reply), StatusIs(kInvalid, "worker: missing"));
  reply.mutable_worker()->set_epoch(5);
  EXPECT_THAT(CheckFields(reply), StatusIs(kInvalid, "worker.rank: missing"));
  reply.mutable_worker()->set_rank(0);
  EXPECT_OK(CheckFields(reply));
}

TEST(ReplyChecksTest, LeasesAreDurations) {
  JoinReply joined;
  joined.mutable_worker()->set_rank(0);
  joined.mutable_lease()->set_seconds(400'000'000'000);
  KeepAliveReply alive;
  alive.mutable_lease_remaining()->set_seconds(1);
  alive.mutable_lease_remaining()->set_nanos(-1);

  EXPECT_THAT(CheckFields(joined),
              StatusIs(kInvalid, HasSubstr("lease: expected a duration")));
  EXPECT_THAT(
      CheckFields(alive),
      StatusIs(kInvalid, HasSubstr("lease_remaining: expected a duration")));
}

TEST(ReplyChecksTest, WorkersOfANamespaceHaveRanks) {
  DescribeNamespaceReply reply;
  WorkerStatus& worker = *reply.mutable_status()->add_workers();

  EXPECT_THAT(CheckFields(reply),
              StatusIs(kInvalid, "entry 0: worker: missing"));
  worker.mutable_worker()->set_epoch(5);
  EXPECT_THAT(CheckFields(reply),
              StatusIs(kInvalid, "entry 0: worker.rank: missing"));
  worker.mutable_worker()->set_rank(0);
  EXPECT_OK(CheckFields(reply));
}

TEST(ReplyChecksTest, TimesOfANamespaceAreDurations) {
  DescribeNamespaceReply described;
  described.mutable_status()->add_waits()->mutable_waited()->set_nanos(
      2'000'000'000);
  ListNamespacesReply page;
  page.add_namespaces();
  page.add_namespaces()->mutable_config()->mutable_quorum_grace()->set_seconds(
      400'000'000'000);
  UpdateNamespaceReply updated;
  updated.mutable_config()->mutable_quorum_grace()->set_seconds(
      400'000'000'000);

  EXPECT_THAT(CheckFields(described),
              StatusIs(kInvalid, HasSubstr("waited: expected a duration")));
  EXPECT_THAT(
      CheckFields(page),
      StatusIs(kInvalid,
               HasSubstr("entry 1: quorum_grace: expected a duration")));
  EXPECT_THAT(
      CheckFields(updated),
      StatusIs(kInvalid, HasSubstr("quorum_grace: expected a duration")));
}

TEST(ReplyChecksTest, KeysHaveShapes) {
  ListReply page;
  page.add_keys()->set_key("a");
  KeyStatus& key = *page.add_keys();
  key.set_key("b");
  key.add_shape(-1);
  StatReply stat;
  *stat.add_keys() = key;

  EXPECT_THAT(CheckFields(page),
              StatusIs(kInvalid, HasSubstr("entry 1 (\"b\"): ")));
  EXPECT_THAT(CheckFields(stat),
              StatusIs(kInvalid, HasSubstr("entry 0 (\"b\"): ")));
}

TEST(ReplyChecksTest, OwnersOfAPlacementAreServers) {
  DescribeClusterReply reply;
  reply.mutable_placement()->add_owners(0);

  EXPECT_THAT(CheckFields(reply),
              StatusIs(kInvalid, HasSubstr("owners: expected below 0")));
}

}  // namespace
}  // namespace tensorkv
