#include "service/store/call_dispatch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/fake_staging.h"
#include "tests/service/mock_store.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::AnswerWith;
using ::testing::ElementsAre;
using ::testing::Return;
using testing::StatusIs;
using ::testing::StrictMock;

using Heard = std::vector<std::string>;

// Keeps what it is asked, and hears the ends of calls that delete or change
// rules.
class RecordingStage final : public CallStage {
 public:
  RecordingStage(std::string name, Heard* heard)
      : name_(std::move(name)), heard_(*heard) {}

  absl::Status Admit(const StagedCall& call) const override {
    heard_.push_back(absl::StrCat(name_, " admits ", NameOf(call.method)));
    return answer;
  }
  bool HearsEndOf(Method method) const override {
    return RightOf(method) == Right::kAdmin;
  }
  void Done(const StagedCall& call,
            const absl::Status& outcome) const override {
    heard_.push_back(absl::StrCat(
        name_, " hears ", NameOf(call.method), " of ", call.name_space, " by ",
        call.caller.name, ": ", absl::StatusCodeToString(outcome.code())));
  }

  absl::Status answer;

 private:
  const std::string name_;
  Heard& heard_;
};

class CallDispatchTest : public ::testing::Test {
 protected:
  Heard heard_;
  RecordingStage first_{"first", &heard_};
  RecordingStage second_{"second", &heard_};
  StrictMock<testing::MockTensorStore> store_;
  StrictMock<testing::MockNamespaceAdmin> namespaces_;
  testing::FakeStaging staging_;
  const CallDispatch calls_{{.store = &store_,
                             .namespaces = &namespaces_,
                             .staging = &staging_,
                             .stages = {&first_, &second_}}};
};

TEST_F(CallDispatchTest, StagesAreInOrderBeforeTheStoreAndInReverseBehindIt) {
  EXPECT_CALL(namespaces_, SetRule)
      .WillOnce([&](auto, auto, ReplyCallback<SetRuleReply> done) {
        heard_.push_back("made");
        std::move(done)(absl::AbortedError(""));
      });

  EXPECT_THAT(calls_.MakeAndWait(testing::SetRuleOf("sgd", "", "n"),
                                 {.caller = {.name = "alice"}}),
              StatusIs(absl::StatusCode::kAborted));

  EXPECT_THAT(heard_,
              ElementsAre("first admits SetRule", "second admits SetRule",
                          "made", "second hears SetRule of n by alice: ABORTED",
                          "first hears SetRule of n by alice: ABORTED"));
}

TEST_F(CallDispatchTest, StagesBeforeTheOneThatRefusesHearOfIt) {
  second_.answer = absl::PermissionDeniedError("");

  EXPECT_THAT(calls_.MakeAndWait(testing::DeleteOf({"k"}, "n"),
                                 {.caller = {.name = "bob"}}),
              StatusIs(absl::StatusCode::kPermissionDenied));

  EXPECT_THAT(heard_,
              ElementsAre("first admits Delete", "second admits Delete",
                          "first hears Delete of n by bob: PERMISSION_DENIED"));
}

TEST_F(CallDispatchTest, EndsOfCallsThatNoStageHearsAreTheCallersAlone) {
  EXPECT_CALL(store_, Pull).WillOnce(AnswerWith<PullReply>(PullReply()));

  EXPECT_OK(calls_.MakeAndWait(PullRequest()));

  EXPECT_THAT(heard_, ElementsAre("first admits Pull", "second admits Pull"));
}

TEST_F(CallDispatchTest, RecordSaysWhatARefusedCallWasAbout) {
  first_.answer = absl::PermissionDeniedError("");
  Caller caller;
  caller.record = std::make_shared<CallRecord>(absl::Seconds(1));
  PushRequest push;
  push.call_id = CallId{"c", 7};

  EXPECT_FALSE(calls_.Admit(push, caller).ok());

  EXPECT_EQ(caller.record->fields().name_space, "default");
  EXPECT_EQ(caller.record->fields().call_id->sequence, 7u);
}

TEST_F(CallDispatchTest, AdmittedCallIsNotAskedAboutAgain) {
  EXPECT_CALL(store_, Push).WillOnce(AnswerWith<PushReply>(PushReply()));

  ASSERT_OK_AND_ASSIGN(auto push, calls_.Admit(PushRequest(), Caller()));
  calls_.MakeAdmitted(std::move(push), {},
                      [](const auto& reply) { EXPECT_OK(reply); });

  EXPECT_THAT(heard_, ElementsAre("first admits Push", "second admits Push"));
}

TEST_F(CallDispatchTest, ManifestIsAdmittedBeforeTheStoreChecksIt) {
  staging_.set_check_status(absl::NotFoundError(""));

  EXPECT_THAT(calls_.CheckManifest(InitRequest(), {}),
              StatusIs(absl::StatusCode::kNotFound));
  second_.answer = absl::UnauthenticatedError("");
  EXPECT_THAT(calls_.CheckManifest(PushPullRequest(), {}),
              StatusIs(absl::StatusCode::kUnauthenticated));
  second_.answer = absl::OkStatus();
  EXPECT_OK(calls_.CheckManifest(PullRequest(), {}));
}

TEST(StagedCallTest, RefersToWhatTheRequestHas) {
  PushRequest push;
  push.name_space = "n";
  push.worker = Worker{.rank = 3};
  push.call_id = CallId{"c", 7};
  push.entries.resize(2);
  push.entries[1].key = "b";
  const Caller caller;

  const StagedCall call(push, caller);

  EXPECT_EQ(call.method, Method::kPush);
  EXPECT_EQ(call.name_space, "n");
  EXPECT_EQ(call.rank, 3u);
  EXPECT_EQ(call.call_id()->sequence, 7u);
  ASSERT_EQ(call.keys->size(), 2u);
  EXPECT_EQ((*call.keys)[1], "b");
}

TEST(StagedCallTest, ReadsMessagesTheSameWay) {
  DeleteRequest deletion = testing::DeleteOf({"a", "b"}, "n");
  SetCallId({"c", 7}, deletion);
  const Caller caller;

  const StagedCall call(deletion, caller);

  EXPECT_EQ(call.name_space, "n");
  EXPECT_EQ(call.call_id()->sequence, 7u);
  ASSERT_EQ(call.keys->size(), 2u);
  EXPECT_EQ((*call.keys)[1], "b");
  EXPECT_FALSE(StagedCall(ListRequest(), caller).keys);
  EXPECT_FALSE(StagedCall(ListRequest(), caller).call_id());
}

}  // namespace
}  // namespace tensorkv
