#include "service/store/call_fingerprint.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Full;
using testing::Vector;

PushRequest APush() {
  return {.worker = Worker{.rank = 1},
          .step = 3,
          .entries = {{.key = "a", .tensor = Vector({1, 2})},
                      {.key = "b", .tensor = Vector({3})}}};
}

TEST(CallFingerprintTest, EqualRequestsHaveEqualFingerprints) {
  EXPECT_EQ(Fingerprint(APush()), Fingerprint(APush()));
}

TEST(CallFingerprintTest, CallIdDoesNotCount) {
  PushRequest named = APush();
  named.call_id = CallId{"c", 1};

  EXPECT_EQ(Fingerprint(named), Fingerprint(APush()));
}

TEST(CallFingerprintTest, EveryFieldOfAPushCounts) {
  std::vector<PushRequest> others(8, APush());
  others[0].step = 4;
  others[1].worker->rank = 2;
  others[2].worker.reset();
  others[3].entries[0].key = "c";
  others[4].entries[1].skip = true;
  others[5].entries[0].tensor = Full({1, 2}, 1);
  others[6].entries[0].tensor = Vector({1, 9});
  others[7].entries[1].weight = 2;

  for (const PushRequest& other : others) {
    EXPECT_NE(Fingerprint(other), Fingerprint(APush()));
  }
}

TEST(CallFingerprintTest, ReplyDTypeCountsInAPushPull) {
  const PushPullRequest push_pull = {APush()};
  PushPullRequest other = push_pull;
  other.dtype = DType::kF16;
  PushPullRequest same = push_pull;
  same.max_reply_bytes = 1;

  EXPECT_NE(Fingerprint(other), Fingerprint(push_pull));
  EXPECT_EQ(Fingerprint(same), Fingerprint(push_pull));
}

TEST(CallFingerprintTest, EveryFieldOfASetStateCounts) {
  const SetStateRequest set = {.entries = {{"a", "s", Vector({1})}}};
  const std::vector<SetStateRequest> others = {
      {.entries = {{"b", "s", Vector({1})}}},
      {.entries = {{"a", "t", Vector({1})}}},
      {.entries = {{"a", "s", Vector({2})}}},
      {.entries = {{"a", "s", Vector({1})}, {"a", "t", Vector({1})}}}};

  for (const SetStateRequest& other : others) {
    EXPECT_NE(Fingerprint(other), Fingerprint(set));
  }
}

TEST(CallFingerprintTest, CallIdAndNamespaceOfAMessageDoNotCount) {
  SetRuleRequest named = testing::SetRuleOf("sgd", "*", "m");
  SetCallId({"c", 1}, named);
  SetNamespaceUid(7, named);

  EXPECT_EQ(Fingerprint(named),
            Fingerprint(testing::SetRuleOf("sgd", "*", "n")));
}

TEST(CallFingerprintTest, EveryOtherFieldOfAMessageCounts) {
  for (const SetRuleRequest& other :
       {testing::SetRuleOf("sgd", "k", "n"),
        testing::SetRuleOf("adam", "*", "n"),
        testing::SetRuleOf("sgd(momentum=0.5)", "*", "n")}) {
    EXPECT_NE(Fingerprint(other),
              Fingerprint(testing::SetRuleOf("sgd", "*", "n")));
  }
}

TEST(CallFingerprintTest, UidThatANamespaceIsToGetCounts) {
  EXPECT_NE(Fingerprint(testing::CreateOf("n", {}, OnExisting::kKeep, 7)),
            Fingerprint(testing::CreateOf("n", {}, OnExisting::kKeep)));
}

TEST(CallFingerprintTest, NameOfANamespaceToDeleteCounts) {
  DeleteNamespaceRequest one;
  one.set_namespace_("m");
  DeleteNamespaceRequest other;
  other.set_namespace_("n");

  EXPECT_NE(Fingerprint(other), Fingerprint(one));
}

TEST(CallFingerprintTest, KeysCannotTradeCharacters) {
  EXPECT_NE(Fingerprint(testing::DeleteOf({"ab", "c"})),
            Fingerprint(testing::DeleteOf({"a", "bc"})));
}

TEST(CallFingerprintTest, VerbsDiffer) {
  EXPECT_NE(Fingerprint(APush()), Fingerprint(PushPullRequest{APush()}));
  EXPECT_NE(Fingerprint(InitRequest()), Fingerprint(SetStateRequest()));
  EXPECT_NE(Fingerprint(UnsetRuleRequest()),
            Fingerprint(UnsetMultipliersRequest()));
}

TEST(CallFingerprintTest, ElementsBeyondTheFirst64BytesDoNotCount) {
  std::vector<double> elements(17, 1);
  const InitRequest one = {.entries = {{"a", Vector(elements)}}};
  elements[16] = 2;
  const InitRequest other = {.entries = {{"a", Vector(elements)}}};

  EXPECT_EQ(Fingerprint(one), Fingerprint(other));
}

// Maps of the same pairs may have them in different orders.
TEST(CallFingerprintTest, HyperparametersCountInAnyOrder) {
  const Hyperparameters some = {
      {"beta1", 0.5}, {"beta2", 0.25}, {"epsilon", 1}, {"learning_rate", 2}};
  Hyperparameters others = some;
  others["learning_rate"] = 0.25;
  SetHyperparametersRequest backwards;
  for (auto each = some.rbegin(); each != some.rend(); ++each) {
    (*backwards.mutable_hyperparameters())[each->first] = each->second;
  }

  const uint64_t fingerprint = Fingerprint(testing::SetHyperparametersOf(some));

  EXPECT_EQ(Fingerprint(backwards), fingerprint);
  EXPECT_NE(Fingerprint(testing::SetHyperparametersOf(others)), fingerprint);
}

}  // namespace
}  // namespace tensorkv
