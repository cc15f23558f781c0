#include "client/cluster/merged_watch.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/watch.pb.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using testing::HasReason;
using ::testing::SizeIs;
using Replies = std::vector<absl::StatusOr<WatchReply>>;

WatchReply ReplyWith(const std::string& token) {
  WatchReply reply;
  reply.set_token(token);
  return reply;
}

WatchReply ReplyWith(const std::string& token, uint64_t version,
                     uint64_t revision) {
  WatchReply reply = ReplyWith(token);
  v1::Change& change = *reply.add_changes();
  change.set_key("w");
  change.set_version(version);
  change.set_revision(revision);
  return reply;
}

MergedWatch Begin(const std::string& token = "") {
  WatchRequest request;
  request.set_prefix("");
  request.set_token(token);
  absl::StatusOr<MergedWatch> watch =
      MergedWatch::Create(request, {"home", "other"});
  EXPECT_OK(watch.status());
  return *std::move(watch);
}

TEST(MergedWatchTest, MakesOneTokenOfThoseOfTheServers) {
  MergedWatch watch = Begin();
  EXPECT_TRUE(watch.begins());
  ASSERT_OK(watch.Take({0, 1}, Replies{ReplyWith("a"), ReplyWith("b")}));

  const MergedWatch next = Begin(watch.Reply().token());

  EXPECT_FALSE(next.begins());
  EXPECT_THAT(next.From(0), ElementsAre(0, 1));
  EXPECT_EQ(next.request(0).token(), "a");
  EXPECT_EQ(next.request(1).token(), "b");
}

TEST(MergedWatchTest, AsksTheHomeAloneOfAMirroredNamespace) {
  MergedWatch watch = Begin();
  WatchReply reply = ReplyWith("a");
  reply.set_is_mirrored(true);
  ASSERT_OK(watch.Take({0}, Replies{reply}));
  EXPECT_TRUE(watch.is_mirrored());

  EXPECT_THAT(Begin(watch.Reply().token()).From(0), ElementsAre(0));
}

TEST(MergedWatchTest, BeginsAnewWhereAServerHasLeftOrCome) {
  MergedWatch watch = Begin();
  ASSERT_OK(watch.Take({0, 1}, Replies{ReplyWith("a"), ReplyWith("b")}));
  WatchRequest request;
  request.set_token(watch.Reply().token());

  for (const std::vector<std::string>& servers :
       {std::vector<std::string>{"home"}, {"home", "other", "new"}}) {
    EXPECT_THAT(MergedWatch::Create(request, servers).status(),
                HasReason(Reason::kRevisionCompacted));
  }
}

// The order in which they are asked says nothing.
TEST(MergedWatchTest, TellsTheNewestOfAKeyThatHasMoved) {
  MergedWatch watch = Begin();
  ASSERT_OK(watch.Take({0, 1},
                       Replies{ReplyWith("a", 9, 30), ReplyWith("b", 8, 20)}));

  const WatchReply reply = watch.Reply();

  ASSERT_THAT(reply.changes(), SizeIs(1));
  EXPECT_EQ(reply.changes(0).version(), 9);
}

TEST(MergedWatchTest, KeepsThePlaceOfThoseWhoseCallWasEnded) {
  MergedWatch first = Begin();
  ASSERT_OK(first.Take({0, 1}, Replies{ReplyWith("a"), ReplyWith("b")}));
  MergedWatch watch = Begin(first.Reply().token());

  ASSERT_OK_AND_ASSIGN(
      const std::vector<size_t> ended,
      watch.Take({0, 1},
                 Replies{ReplyWith("c", 1, 1), absl::CancelledError("ended")}));

  EXPECT_THAT(ended, ElementsAre(1));
  EXPECT_TRUE(watch.HasAnswer());
  const MergedWatch next = Begin(watch.Reply().token());
  EXPECT_EQ(next.request(0).token(), "c");
  EXPECT_EQ(next.request(1).token(), "b");
}

TEST(MergedWatchTest, GoesOnWithoutAServerThatHasNoSuchNamespaceYet) {
  MergedWatch watch = Begin();
  EXPECT_OK(watch.Take(
      {0, 1}, Replies{ReplyWith("a"), absl::NotFoundError("namespace")}));
  MergedWatch next = Begin(watch.Reply().token());
  EXPECT_TRUE(next.request(1).token().empty());
  EXPECT_FALSE(next.begins());

  EXPECT_THAT(next.Take({1}, Replies{ReplyWith("b")}).status(),
              HasReason(Reason::kRevisionCompacted));
}

TEST(MergedWatchTest, EndsWhereTheHomeHasNoSuchNamespace) {
  MergedWatch watch = Begin();
  const absl::StatusOr<WatchReply> not_found = absl::NotFoundError("namespace");

  EXPECT_TRUE(MergedWatch::IsAnswer(0, not_found));
  EXPECT_FALSE(MergedWatch::IsAnswer(1, not_found));
  EXPECT_FALSE(watch.Take({0}, Replies{not_found}).ok());
}

TEST(MergedWatchTest, TellsWhatOthersHaveWhereOneDoesNotAnswer) {
  MergedWatch first = Begin();
  ASSERT_OK(first.Take({0, 1}, Replies{ReplyWith("a"), ReplyWith("b")}));
  const std::string token = first.Reply().token();
  const absl::StatusOr<WatchReply> lost = absl::UnavailableError("it is lost");

  MergedWatch watch = Begin(token);
  ASSERT_OK(watch.Take({0, 1}, Replies{ReplyWith("c", 1, 1), lost}));
  EXPECT_EQ(Begin(watch.Reply().token()).request(1).token(), "b");

  MergedWatch quiet = Begin(token);
  EXPECT_FALSE(quiet.Take({0, 1}, Replies{ReplyWith("c"), lost}).ok());
}

TEST(MergedWatchTest, TellsTheNewestSnapshotOfASeries) {
  MergedWatch watch = Begin();
  Replies replies{ReplyWith("a"), ReplyWith("b")};
  for (size_t i = 0; i < replies.size(); ++i) {
    v1::Change& change = *replies[i]->add_changes();
    change.set_series("s");
    change.set_number(6 - i);
    change.set_revision(i);
  }
  ASSERT_OK(watch.Take({0, 1}, std::move(replies)));

  const WatchReply reply = watch.Reply();

  ASSERT_THAT(reply.changes(), SizeIs(1));
  EXPECT_EQ(reply.changes(0).number(), 6);
}

}  // namespace
}  // namespace tensorkv
