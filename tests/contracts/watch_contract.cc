// Watches: what they tell of changes.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/duration.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace watch_contract {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

WatchRequest WatchOf(const std::string& prefix, bool initial = false) {
  WatchRequest request;
  request.set_prefix(prefix);
  request.set_initial(initial);
  return request;
}

WatchRequest WatchOfSeries(const std::string& series) {
  WatchRequest request;
  request.set_series(series);
  return request;
}

// A watch, which gathers no changes before it is told of them.
class Watcher {
 public:
  Watcher(Caller caller, WatchRequest request)
      : caller_(std::move(caller)), request_(std::move(request)) {
    EncodeDuration(absl::ZeroDuration(), request_.mutable_interval());
    EXPECT_OK(Ask(absl::ZeroDuration()).status());
  }

  // The next reply.
  absl::StatusOr<WatchReply> Ask(absl::Duration max_wait = absl::Seconds(20)) {
    EncodeDuration(max_wait, request_.mutable_max_wait());
    absl::StatusOr<WatchReply> reply = caller_.Call(request_);
    if (!reply.ok()) return reply;
    request_.set_token(reply->token());
    for (const v1::Change& change : reply->changes()) Take(change);
    return reply;
  }
  // Asks until it was told that many changes.
  void AwaitChanges(size_t num_changes) {
    while (changes.size() < num_changes) {
      const absl::StatusOr<WatchReply> reply = Ask();
      ASSERT_OK(reply.status());
      ASSERT_FALSE(reply->changes().empty()) << changes.size();
    }
  }
  // Asks until it was told that the key, or series, has that number, in which
  // 0 stands for none.
  void AwaitThat(const std::string& name, uint64_t number) {
    while (numbers[name] != number) {
      const absl::StatusOr<WatchReply> reply = Ask();
      ASSERT_OK(reply.status());
      ASSERT_FALSE(reply->changes().empty()) << name;
    }
  }
  WatchRequest& request() { return request_; }
  // The numbers that it was told last of what was not deleted.
  std::map<std::string, uint64_t> NumbersThere() const {
    std::map<std::string, uint64_t> there = numbers;
    std::erase_if(there, [](const auto& each) { return each.second == 0; });
    return there;
  }

  // What it was told: all of it, and what the last of it says.
  std::vector<v1::Change> changes;
  std::map<std::string, uint64_t> numbers;

 private:
  void Take(const v1::Change& change) {
    changes.push_back(change);
    const bool is_key = change.series().empty();
    uint64_t& number = numbers[is_key ? change.key() : change.series()];
    const uint64_t told = is_key ? change.version() : change.number();
    EXPECT_TRUE(change.deleted() || told >= number) << change.DebugString();
    number = told;
  }

  const Caller caller_;
  WatchRequest request_;
};

TEST_P(WatchContractTest, TellsWhatIsWatchedInTheOrderOfItsChanges) {
  Watcher watcher(store_, WatchOf("a"));
  Watcher of_key(store_, [] {
    WatchRequest request;
    request.set_key("a");
    return request;
  }());
  ASSERT_OK(store_.Init("a1", Full({2}, 1)));
  ASSERT_OK(store_.Init("b", Full({2}, 1)));
  ASSERT_OK(store_.Init("a", Full({2}, 1)));
  ASSERT_OK_AND_ASSIGN(const PushResult pushed,
                       store_.Push("a1", Full({2}, 2)));

  watcher.AwaitThat("a1", pushed.version);
  of_key.AwaitThat("a", 1);

  EXPECT_THAT(watcher.numbers,
              UnorderedElementsAre(Pair("a", 1), Pair("a1", pushed.version)));
  EXPECT_THAT(of_key.changes, SizeIs(1));
  // Nothing is said of the order between servers.
  for (size_t i = 1; i < watcher.changes.size() && !is_cluster(); ++i) {
    EXPECT_LT(watcher.changes[i - 1].revision(), watcher.changes[i].revision());
  }
}

TEST_P(WatchContractTest, TellsDeletes) {
  ASSERT_OK(store_.Init("k", Full({2}, 1)));
  Watcher watcher(store_, WatchOf("k"));

  EXPECT_THAT(store_.Delete({"k"}), IsOkAndHolds(1));
  watcher.AwaitChanges(1);
  EXPECT_TRUE(watcher.changes.back().deleted());
  EXPECT_EQ(watcher.changes.back().key(), "k");
  ASSERT_OK_AND_ASSIGN(const Version version, store_.Init("k", Full({3}, 1)));
  watcher.AwaitThat("k", version);

  EXPECT_FALSE(watcher.changes.back().deleted());
}

TEST_P(WatchContractTest, TellsFirstWhatThereIs) {
  for (const std::string key : {"a", "b", "c", "x"}) {
    ASSERT_OK(store_.Init(key, Full({2}, 1)));
  }
  CreateSnapshotRequest create;
  create.set_series("s");
  ASSERT_OK(store_.Call(create).status());
  WatchRequest request = WatchOf("", /*initial=*/true);
  request.set_series("s");
  request.set_max_changes(2);
  Watcher watcher(store_, request);

  watcher.AwaitChanges(5);
  ASSERT_OK(store_.Push("b", Full({2}, 2)));
  watcher.AwaitThat("b", 2);

  std::vector<std::string> names;
  for (const v1::Change& each : watcher.changes) {
    names.push_back(absl::StrCat(each.key(), each.series()));
  }
  EXPECT_THAT(names, UnorderedElementsAre("a", "b", "c", "x", "s", "b"));
  if (is_cluster()) return;
  EXPECT_THAT(names, ElementsAre("a", "b", "c", "x", "s", "b"));
}

TEST_P(WatchContractTest, WaitsForAKeyToExist) {
  const Caller caller = NewNamespace("n", {});
  Watcher watcher(caller, WatchOf("k", /*initial=*/true));
  EXPECT_THAT(watcher.changes, IsEmpty());

  Background wait([&] {
    watcher.AwaitThat("k", 1);
    return watcher.changes.size();
  });
  if (!is_cluster()) AwaitWaitingCalls(caller, 1);
  ASSERT_OK(caller.Init("k", Full({2}, 1)));

  EXPECT_EQ(wait.Result(), 1u);
  Watcher late(caller, WatchOf("k", /*initial=*/true));
  EXPECT_THAT(late.numbers, ElementsAre(Pair("k", 1)));
}

TEST_P(WatchContractTest, TellsSnapshotsThatCanBeRead) {
  Watcher of_one(store_, WatchOfSeries("s"));
  Watcher of_all(store_, WatchOfSeries(""));
  for (const std::string series : {"r", "s"}) {
    CreateSnapshotRequest create;
    create.set_series(series);
    create.set_number(7);
    ASSERT_OK(store_.Call(create).status());
  }

  of_one.AwaitThat("s", 7);
  of_all.AwaitThat("s", 7);

  EXPECT_THAT(of_one.numbers, ElementsAre(Pair("s", 7)));
  EXPECT_THAT(of_all.numbers, ElementsAre(Pair("r", 7), Pair("s", 7)));
}

TEST_P(WatchContractTest, GoesOnFromAToken) {
  Watcher watcher(store_, WatchOf(""));
  WatchRequest request = watcher.request();
  ASSERT_OK(store_.Init("a", Full({2}, 1)));
  watcher.AwaitThat("a", 1);
  ASSERT_OK(store_.Init("b", Full({2}, 1)));
  watcher.AwaitThat("b", 1);

  ASSERT_OK_AND_ASSIGN(const WatchReply again, store_.Call(request));

  EXPECT_THAT(again.changes(), SizeIs(2));
}

TEST_P(WatchContractTest, AnswersThatNothingHasChanged) {
  Watcher watcher(store_, WatchOf("a"));
  const std::string token = watcher.request().token();
  ASSERT_OK(store_.Init("b", Full({2}, 1)));

  ASSERT_OK_AND_ASSIGN(const WatchReply reply,
                       watcher.Ask(absl::Milliseconds(10)));

  EXPECT_THAT(reply.changes(), IsEmpty());
  EXPECT_FALSE(reply.has_more());
}

TEST_P(WatchContractTest, EndsWithItsNamespaceAndBeginsAnewInAnother) {
  const Caller caller = NewNamespace("n", {});
  Watcher watcher(caller, WatchOf(""));
  Background wait([&] { return watcher.Ask().status(); });
  if (!is_cluster()) AwaitWaitingCalls(caller, 1);

  ASSERT_OK(caller.Drop());
  EXPECT_THAT(wait.Result(), StatusIs(StatusCode::kNotFound));
  ASSERT_OK(caller.Create({}));

  EXPECT_THAT(watcher.Ask().status(), HasReason(Reason::kRevisionCompacted));
}

TEST_P(WatchContractTest, RefusesWhatIsNoWatch) {
  WatchRequest long_interval = WatchOf("");
  EncodeDuration(absl::Hours(2), long_interval.mutable_interval());
  WatchRequest of_bad_key;
  of_bad_key.set_key("a\n");
  WatchRequest bad_token = WatchOf("");
  bad_token.set_token("token");
  for (const WatchRequest& request : {WatchRequest(), long_interval, of_bad_key,
                                      bad_token, WatchOfSeries("a\nb")}) {
    EXPECT_THAT(store_.Call(request).status(),
                StatusIs(StatusCode::kInvalidArgument))
        << request.DebugString();
  }
}

// What it was told in the end is what there is, whatever calls were made.
TEST_P(WatchContractTest, HasToldWhatThereIsOnceAllIsQuiet) {
  constexpr int kNumCalls = 50;
  Watcher watcher(store_, WatchOf("k", /*initial=*/true));
  const auto name = [](int i) { return absl::StrCat("k", i % 7); };
  Background changes([&] {
    RunConcurrently(3, [&](int thread) {
      for (int i = 0; i < kNumCalls; ++i) {
        const std::string key = name(3 * i + thread);
        if (i % 10 == thread) {
          store_.Delete({key}, /*allow_missing=*/true).IgnoreError();
        } else if (!store_.Push(key, Full({2}, i)).ok()) {
          store_.Init(key, Full({2}, i), OnExisting::kReplace).IgnoreError();
        }
      }
    });
    return true;
  });
  while (!changes.IsDone()) ASSERT_OK(watcher.Ask(absl::ZeroDuration()));
  EXPECT_TRUE(changes.Result());
  std::map<std::string, uint64_t> there;
  ASSERT_OK_AND_ASSIGN(const ListReply list, store_.List("k"));
  for (const KeyStatus& key : list.keys()) there[key.key()] = key.version();

  // Each server tells of the end when it has come to it.
  while (watcher.NumbersThere() != there) {
    ASSERT_OK_AND_ASSIGN(const WatchReply reply, watcher.Ask());
    ASSERT_FALSE(reply.changes().empty());
  }
}

}  // namespace watch_contract
}  // namespace tensorkv::testing
