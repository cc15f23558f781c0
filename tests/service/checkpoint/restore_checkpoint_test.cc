#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/answer.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/checkpoint/checkpoints.h"
#include "service/store/cancellation.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::CheckpointsTest;
using ::tensorkv::testing::Filled;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::PushOf;
using ::tensorkv::testing::RestoreOf;
using ::tensorkv::testing::SaveAs;
using ::tensorkv::testing::SavedStore;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

// A server with the checkpoint "then", since when all has changed.
class RestoreCheckpointTest : public CheckpointsTest {
 protected:
  RestoreCheckpointTest() {
    Restart();
    NamespaceConfig config;
    config.rule = *ParseRuleSpec("sgd(learning_rate=0.1, momentum=0.9)");
    for (const std::string name : {"a", "b"}) {
      CreateNamespace(*saved_, name, config);
      EXPECT_OK(saved_->Init(name, "k", Filled(DType::kF32, 1)));
      Push(name);
    }
    CreateNamespace(*saved_, "empty",
                    {.mode = Mode::kSync,
                     .num_workers = 4,
                     .aggregation = Aggregation::kTrimmedMean,
                     .trim_fraction = 0.25});
    EXPECT_OK(saved_->Init("", "k", Filled(DType::kF32, 5)));
    EXPECT_OK(SaveAs(saved_->checkpoints(), "then"));
    EXPECT_OK(testing::MakeNow(saved_->store(), testing::RemoveOf("empty")));
    then_ = BytesOf(saved_->Pull("a", "k"));
    for (const std::string name : {"a", "b", ""}) Push(name);
    now_ = BytesOf(saved_->Pull("a", "k"));
  }

  void Push(const std::string& name) {
    EXPECT_OK(saved_->Push(PushOf(name, "k", Filled(DType::kF32, 1))));
  }
  absl::Status Restore(RestoreCheckpointRequest request,
                       const CallContext& context = {}) {
    return saved_->checkpoints().RestoreCheckpoint(request, context).status();
  }
  std::string BytesIn(const std::string& name) {
    return BytesOf(saved_->Pull(name, "k"));
  }
  uint64_t UidOf(const std::string& name) {
    return testing::Described(saved_->store(), name).uid();
  }
  std::set<std::string> Names() {
    std::set<std::string> names;
    const auto listed =
        saved_->store()
            .ListNamespaces("", 100, [](absl::string_view) { return true; })
            .value();
    for (const NamespaceStatus& each : listed) names.insert(each.name());
    return names;
  }
  void DamageLastFile() {
    std::vector<std::string> files;
    for (const std::string& file : FilesOf("then")) {
      if (absl::StrContains(file, "safetensors")) files.push_back(file);
    }
    std::filesystem::resize_file(*std::max_element(files.begin(), files.end()),
                                 1);
  }

  std::string then_;
  std::string now_;
};

TEST_F(RestoreCheckpointTest, NamespaceComesBackBesideItsOwnLaterSelf) {
  ASSERT_OK(Restore(RestoreOf("then", {"a"}, "as-it-was")));

  EXPECT_EQ(Names(), (std::set<std::string>{"a", "as-it-was", "b", "default"}));
  EXPECT_EQ(BytesIn("as-it-was"), then_);
  EXPECT_EQ(BytesIn("a"), now_);
  EXPECT_NE(UidOf("as-it-was"), UidOf("a"));
  // Its momentum came with it.
  Push("as-it-was");
  EXPECT_EQ(BytesIn("as-it-was"), now_);
}

TEST_F(RestoreCheckpointTest, NamespacesGetTheUidThatTheyAreGiven) {
  ASSERT_OK(Restore(
      RestoreOf("then", {"a", "b"}, "", v1::ON_EXISTING_REPLACE, /*uid=*/7)));

  EXPECT_EQ(UidOf("a"), 7u);
  EXPECT_EQ(UidOf("b"), 7u);
}

TEST_F(RestoreCheckpointTest, RoundsOfWhatComesBackAverageAsBefore) {
  ASSERT_OK(Restore(RestoreOf("then", {"empty"})));

  const NamespaceConfig config =
      testing::ConfigOf(testing::Described(saved_->store(), "empty"));
  EXPECT_EQ(config.aggregation, Aggregation::kTrimmedMean);
  EXPECT_EQ(config.trim_fraction, 0.25);
}

TEST_F(RestoreCheckpointTest, WhatWasCarriedCountsOnceAfterwards) {
  CreateNamespace(*saved_, "late",
                  {.mode = Mode::kSync,
                   .num_workers = 3,
                   .quorum = 2,
                   .late = Late::kCarry});
  ASSERT_OK(saved_->Init("late", "k", Filled(DType::kF32, 0)));
  uint64_t sequence = 0;
  const auto push = [&](uint32_t rank, Step step) {
    PushRequest request = PushOf("late", "k", Filled(DType::kF32, 1));
    request.call_id = CallId{absl::StrCat("client", rank), ++sequence};
    request.worker = Worker{rank, 0};
    request.step = step;
    return saved_->Push(std::move(request))->results[0];
  };
  const auto close = [&](Step step) {
    const Version version = saved_->Pull("late", "k").version;
    push(0, step);
    push(1, step);
    while (saved_->Pull("late", "k").version == version) {
    }
  };
  close(1);
  EXPECT_EQ(push(2, 1).step, 2u);
  close(2);
  ASSERT_OK(SaveAs(saved_->checkpoints(), "carried"));

  ASSERT_OK(
      Restore(RestoreOf("carried", {"late"}, "", v1::ON_EXISTING_REPLACE)));

  const PushResult repeat = push(2, 1);
  EXPECT_TRUE(repeat.repeated);
  EXPECT_EQ(repeat.step, 2u);
  close(3);
  EXPECT_EQ(saved_->Pull("late", "k").tensor.elements<float>()[0], 2);
}

TEST_F(RestoreCheckpointTest, NamespaceThatWasDeletedIsAnotherOneAgain) {
  const uint64_t uid = UidOf("a");
  const Version version = saved_->Pull("a", "k").version;
  ASSERT_OK(testing::MakeNow(saved_->store(), testing::RemoveOf("a")));

  ASSERT_OK(Restore(RestoreOf("then", {"a"})));

  EXPECT_EQ(BytesIn("a"), then_);
  EXPECT_NE(UidOf("a"), uid);
  Push("a");
  EXPECT_GT(saved_->Pull("a", "k").version, version);
}

TEST_F(RestoreCheckpointTest, AllAreReplacedAtOnceIfAsked) {
  const uint64_t uid = UidOf("a");
  PullRequest waits;
  waits.name_space = "a";
  waits.entries.push_back({"k", /*min_version=*/UINT64_MAX});
  const Answer<absl::StatusOr<PullReply>> waited;
  saved_->store().Pull(waits, {}, [waited](absl::StatusOr<PullReply> reply) {
    waited.Set(std::move(reply));
  });

  EXPECT_THAT(Restore(RestoreOf("then")), HasReason(Reason::kNamespaceExists));
  EXPECT_EQ(BytesIn("a"), now_);
  ASSERT_OK(Restore(RestoreOf("then", {}, "", v1::ON_EXISTING_REPLACE)));

  EXPECT_THAT(waited.Wait(), HasReason(Reason::kNamespaceReplaced));
  PushRequest of_former = PushOf("a", "k", Filled(DType::kF32, 1));
  of_former.namespace_uid = uid;
  EXPECT_THAT(saved_->Push(of_former), HasReason(Reason::kNamespaceReplaced));
  EXPECT_EQ(BytesIn("a"), then_);
  EXPECT_EQ(BytesIn("b"), then_);
  EXPECT_EQ(saved_->Pull("", "k").tensor.elements<float>()[0], 5);
}

TEST_F(RestoreCheckpointTest, WhatIsWrongIsNamedAndLeavesAllAsItWas) {
  const auto cancelled = std::make_shared<Cancellation>();
  cancelled->Cancel();
  const v1::OnExisting replace = v1::ON_EXISTING_REPLACE;
  struct Row {
    RestoreCheckpointRequest request;
    absl::StatusCode code;
    std::string message;
    CallContext context;
  };
  const Row rows[] = {
      {RestoreOf("never"), absl::StatusCode::kNotFound, "\"never\""},
      {RestoreOf("../then"), absl::StatusCode::kInvalidArgument, "letters"},
      {RestoreOf("then", {"a", "c"}, "", replace), absl::StatusCode::kNotFound,
       "no namespace \"c\""},
      {RestoreOf("then", {"a", "b"}, "c"), absl::StatusCode::kInvalidArgument,
       "got 2"},
      {RestoreOf("then", {"a"}, "\n"), absl::StatusCode::kInvalidArgument,
       "namespace"},
      {RestoreOf("then", {}, "", v1::ON_EXISTING_KEEP),
       absl::StatusCode::kInvalidArgument, "KEEP"},
      {RestoreOf("then", {}, "", static_cast<v1::OnExisting>(9)),
       absl::StatusCode::kInvalidArgument, "on_existing: unknown number 9"},
      {RestoreOf("then", {"a"}, "", replace, UidOf("a")),
       absl::StatusCode::kInvalidArgument, "that no namespace \"a\" has had"},
      {RestoreOf("then", {"a"}, "", replace),
       absl::StatusCode::kCancelled,
       "given up",
       {.cancellation = cancelled}},
      {RestoreOf("then", {"empty"}, "c"),
       absl::StatusCode::kCancelled,
       "given up",
       {.cancellation = cancelled}},
      {RestoreOf("then", {}, "", replace), absl::StatusCode::kDataLoss,
       "cut off"}};
  const uint64_t used_bytes = saved_->store().used_bytes();
  for (const Row& row : rows) {
    if (row.code == absl::StatusCode::kDataLoss) DamageLastFile();

    EXPECT_THAT(Restore(row.request, row.context),
                StatusIs(row.code, HasSubstr(row.message)));

    EXPECT_EQ(Names(), (std::set<std::string>{"a", "b", "default"}));
    EXPECT_EQ(BytesIn("a"), now_);
    EXPECT_EQ(saved_->store().used_bytes(), used_bytes) << row.message;
  }
}

TEST_F(RestoreCheckpointTest, WhatHasNoRoomLeavesAllAsItWas) {
  // There is room for one key more, but not for two.
  const uint64_t bytes =
      SavedStore::kBudgetBytes - saved_->store().used_bytes() - 1024;
  ASSERT_OK(saved_->Init(
      "", "large",
      Filled(DType::kF32, 0, {static_cast<int64_t>(bytes / sizeof(float))})));
  const uint64_t used_bytes = saved_->store().used_bytes();

  EXPECT_THAT(
      Restore(RestoreOf("then", {"a", "b"}, "", v1::ON_EXISTING_REPLACE)),
      HasReason(Reason::kOverBudget));

  EXPECT_EQ(BytesIn("a"), now_);
  EXPECT_EQ(saved_->store().used_bytes(), used_bytes);
}

TEST_F(CheckpointsTest, ARepeatedCallIsAnsweredOnlyIfItIsRemembered) {
  SavedStore& before = Restart();
  ASSERT_OK(before.Init("", "k", Filled(DType::kF32, 0)));
  PushRequest call = PushOf("", "k", Filled(DType::kF32, 7));
  call.call_id = CallId{"client", 1};
  const auto first = before.Push(call);
  ASSERT_OK(first);
  ASSERT_OK(before.checkpoints().Save());
  call.call_id->sequence = 2;
  ASSERT_OK(before.Push(call));

  SavedStore& after = Restart();
  ASSERT_OK(after.checkpoints().RestoreLast());
  const CallContext of_former = {
      .caller = {.unless_remembered =
                     WithReason(absl::FailedPreconditionError("restarted"),
                                Reason::kServerRestarted)}};

  EXPECT_THAT(after.Push(call, of_former), HasReason(Reason::kServerRestarted));
  call.call_id.reset();
  EXPECT_THAT(after.Push(call, of_former), HasReason(Reason::kServerRestarted));
  call.call_id = CallId{"client", 1};
  const auto again = after.Push(call, of_former);
  ASSERT_OK(again);
  EXPECT_EQ(again->results[0].version, first->results[0].version);
  EXPECT_EQ(after.Stat("", "k").version(), first->results[0].version);
}

TEST_F(CheckpointsTest, AnswerToAnUpdateOfANamespaceIsRemembered) {
  SavedStore& before = Restart();
  const auto update_of = [](double max_norm) {
    return testing::UpdateOf("default",
                             {.gradient_guard = {.max_norm = max_norm}},
                             {"gradient_guard.max_norm"});
  };
  UpdateNamespaceRequest call = update_of(2);
  SetCallId(CallId{"client", 1}, call);
  ASSERT_OK(testing::MakeNow(before.store(), call));
  ASSERT_OK(before.checkpoints().Save());
  SavedStore& after = Restart();
  ASSERT_OK(after.checkpoints().RestoreLast());
  ASSERT_OK(testing::MakeNow(after.store(), update_of(4)));

  ASSERT_OK_AND_ASSIGN(const UpdateNamespaceReply again,
                       testing::MakeNow(after.store(), call));

  EXPECT_EQ(again.config().gradient_guard().max_norm(), 2);
  EXPECT_EQ(testing::ConfigOf(testing::Described(after.store(), ""))
                .gradient_guard.max_norm,
            4);
}

TEST_F(CheckpointsTest, AnswersThatTheirClientHadStayForgotten) {
  SavedStore& before = Restart();
  ASSERT_OK(before.Init("", "k", Filled(DType::kF32, 0)));
  PushRequest call = PushOf("", "k", Filled(DType::kF32, 7));
  for (const uint64_t sequence : {1, 2}) {
    call.call_id = CallId{"client", sequence, sequence};
    ASSERT_OK(before.Push(call));
  }
  const Version version = before.Stat("", "k").version();
  ASSERT_OK(before.checkpoints().Save());

  SavedStore& after = Restart();
  ASSERT_OK(after.checkpoints().RestoreLast());

  EXPECT_OK(after.Push(call));
  call.call_id = CallId{"client", 1, 1};
  EXPECT_THAT(after.Push(call), HasReason(Reason::kOutcomeUnknown));
  EXPECT_EQ(after.Stat("", "k").version(), version);
}

}  // namespace
}  // namespace tensorkv
