#include "client/cluster/merged_replies.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/reason_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::IsOk;
using ::testing::ElementsAreArray;

absl::Status With(Reason reason) {
  return testing::StatusOfReason(reason, "x");
}

TEST(MostActionableErrorTest, ChoosesWhatIsToBeMendedFirst) {
  // Each before all that follow.
  const std::vector<absl::Status> ordered = {With(Reason::kServerRestarted),
                                             With(Reason::kLeaseLost),
                                             With(Reason::kRoundFailed),
                                             absl::NotFoundError("final"),
                                             absl::UnavailableError("away"),
                                             With(Reason::kStepClosed),
                                             absl::OkStatus()};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = i; j < ordered.size(); ++j) {
      EXPECT_EQ(MostActionableError({ordered[i], ordered[j]}), ordered[i]);
      EXPECT_EQ(MostActionableError({ordered[j], ordered[i]}), ordered[i]);
    }
  }
}

TEST(MostActionableErrorTest, ChoosesTheFirstOfAKind) {
  EXPECT_THAT(
      MostActionableError({With(Reason::kNotMember), With(Reason::kLeaseLost)}),
      HasReason(Reason::kNotMember));
  EXPECT_THAT(MostActionableError({With(Reason::kOutcomeUnknown),
                                   absl::UnavailableError("away")}),
              HasReason(Reason::kOutcomeUnknown));
  EXPECT_THAT(MostActionableError({}), IsOk());
}

TEST(NextStepOfTest, IsTheLowestThatAnyServerWithKeysLacks) {
  EXPECT_EQ(NextStepOf(Mode::kSync, 7, 6), 6);
  EXPECT_EQ(NextStepOf(Mode::kSync, 7, 1), 7);
  EXPECT_EQ(NextStepOf(Mode::kSync, 1, 7), 7);
  EXPECT_EQ(NextStepOf(Mode::kSync, 1, 1), 1);
  EXPECT_EQ(NextStepOf(Mode::kAsync, 7, 6), 7);
}

// Keys that end so are left out by the server that has them, as they are not
// its own by now.
constexpr char kNotOwned[] = "~";

// What a server with these keys, which rise, answers.
ListReply PageOf(const std::vector<std::string>& keys,
                 const ListRequest& request, size_t server_page) {
  ListReply page;
  std::string last;
  size_t num_read = 0;
  for (const std::string& key : keys) {
    if (key <= request.page_token()) continue;
    if (num_read++ == server_page) {
      page.set_next_page_token(last);
      break;
    }
    last = key;
    if (!absl::EndsWith(key, kNotOwned)) page.add_keys()->set_key(key);
  }
  return page;
}

TEST(MergePagesTest, GivesEveryKeyOnceAndInOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<std::string>> servers(1 + random() % 4);
    std::vector<std::string> all;
    for (size_t i = random() % 60; i > 0; --i) {
      std::string key = absl::StrCat("k", 1000 + i);
      std::vector<std::string>& keys = servers[random() % servers.size()];
      if (random() % 3 == 0) {
        keys.push_back(absl::StrCat(key, kNotOwned));
        continue;
      }
      keys.push_back(key);
      all.push_back(std::move(key));
    }
    std::sort(all.begin(), all.end());
    for (auto& keys : servers) std::sort(keys.begin(), keys.end());

    ListRequest request;
    request.set_page_size(random() % 8);
    // A server may end a page early.
    const size_t server_page = 1 + random() % 8;
    std::vector<std::string> listed;
    do {
      std::vector<ListReply> pages;
      for (const auto& keys : servers) {
        pages.push_back(PageOf(keys, request, server_page));
      }
      ListReply page = MergePages(std::move(pages), request.page_size());
      if (request.page_size() > 0) {
        EXPECT_LE(page.keys_size(), static_cast<int>(request.page_size()));
      }
      for (const KeyStatus& key : page.keys()) listed.push_back(key.key());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());

    EXPECT_THAT(listed, ElementsAreArray(all));
  }
}

// One that moves may be listed where it was and where it is.
TEST(MergePagesTest, GivesAKeyOfSeveralServersOnce) {
  std::vector<ListReply> pages = {testing::PageOfKeys({"a", "b"}),
                                  testing::PageOfKeys({"b", "c"})};
  pages[0].mutable_keys(1)->set_version(1);
  pages[1].mutable_keys(0)->set_version(2);

  const ListReply merged = MergePages(std::move(pages), 3);

  ASSERT_EQ(merged.keys_size(), 3);
  EXPECT_EQ(merged.keys(1).version(), 1);
  EXPECT_EQ(merged.keys(2).key(), "c");
}

TEST(MergePagesTest, AddsUpNamespacesOfOneName) {
  std::vector<ListNamespacesReply> pages(2);
  const auto add = [](ListNamespacesReply& page, const std::string& name,
                      uint64_t num_keys, uint64_t uid) {
    NamespaceStatus& status = *page.add_namespaces();
    status.set_name(name);
    status.set_num_keys(num_keys);
    status.set_uid(uid);
  };
  add(pages[0], "a", /*num_keys=*/1, /*uid=*/7);
  add(pages[0], "c", /*num_keys=*/2, /*uid=*/9);
  add(pages[1], "a", /*num_keys=*/10, /*uid=*/8);
  add(pages[1], "b", /*num_keys=*/20, /*uid=*/10);

  const ListNamespacesReply merged = MergePages(std::move(pages), 2);

  ASSERT_EQ(merged.namespaces_size(), 2);
  EXPECT_EQ(merged.namespaces(0).num_keys(), 11);
  EXPECT_EQ(merged.namespaces(0).uid(), 7);
  EXPECT_EQ(merged.namespaces(1).name(), "b");
  EXPECT_EQ(merged.next_page_token(), "b");
}

// A page of checkpoints with these names and bytes.
ListCheckpointsReply CheckpointsOf(
    const std::vector<std::pair<std::string, uint64_t>>& checkpoints,
    const std::string& next_page_token = "") {
  ListCheckpointsReply page;
  for (const auto& [name, bytes] : checkpoints) {
    CheckpointStatus& status = *page.add_checkpoints();
    status.set_name(name);
    status.set_bytes(bytes);
  }
  page.set_next_page_token(next_page_token);
  return page;
}

TEST(CommonCheckpointsTest, AreThoseThatAllHave) {
  const std::vector<ListCheckpointsReply> lists = {
      CheckpointsOf({{"a", 1}, {"b", 2}}),
      CheckpointsOf({{"b", 40}, {"c", 3}})};

  const ListCheckpointsReply common = CommonCheckpoints(lists, /*page_size=*/0);

  ASSERT_EQ(common.checkpoints_size(), 1);
  EXPECT_EQ(common.checkpoints(0).name(), "b");
  EXPECT_EQ(common.checkpoints(0).bytes(), 42);
}

// What a page does not reach may be on the next page of its server.
TEST(CommonCheckpointsTest, EndWhereTheFirstPageEnds) {
  const std::vector<ListCheckpointsReply> pages = {
      CheckpointsOf({{"a", 0}, {"c", 0}}, "c"),
      CheckpointsOf({{"a", 0}, {"b", 0}, {"c", 0}}, "d")};

  const ListCheckpointsReply whole = CommonCheckpoints(pages, /*page_size=*/0);
  const ListCheckpointsReply cut = CommonCheckpoints(pages, /*page_size=*/1);

  ASSERT_EQ(whole.checkpoints_size(), 2);
  EXPECT_EQ(whole.checkpoints(1).name(), "c");
  EXPECT_EQ(whole.next_page_token(), "c");
  ASSERT_EQ(cut.checkpoints_size(), 1);
  EXPECT_EQ(cut.next_page_token(), "a");
}

}  // namespace
}  // namespace tensorkv
