#include "service/store/call_fingerprint.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/key_requests.h"
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

TEST(CallFingerprintTest, EveryFieldOfANamespaceCounts) {
  std::vector<CreateNamespaceRequest> others(20);
  others[0].name_space = "n";
  others[1].on_existing = OnExisting::kKeep;
  others[2].config.mode = Mode::kSync;
  others[3].config.num_workers = 1;
  others[4].config.max_workers = 1;
  others[5].config.rule.name = "sgd";
  others[6].config.budget_bytes = 1;
  others[7].config.max_open_rounds = 1;
  others[8].config.staleness = 1;
  others[9].config.on_worker_loss = OnWorkerLoss::kContinue;
  others[10].config.rescale_partial_rounds = true;
  others[11].config.quorum = 1;
  others[12].config.quorum_grace = absl::Milliseconds(1);
  others[13].config.gradient_guard.on_non_finite = OnNonFinite::kSkip;
  others[14].config.gradient_guard.max_norm = 1;
  others[15].config.gradient_guard.on_large_norm = OnLargeNorm::kRefuse;
  others[16].config.gradient_guard.max_call_norm = 1;
  others[17].config.aggregation = Aggregation::kMedian;
  others[18].config.trim_fraction = 0.25;
  others[19].config.mirrored = true;

  for (const CreateNamespaceRequest& other : others) {
    EXPECT_NE(Fingerprint(other), Fingerprint(CreateNamespaceRequest()));
  }
}

TEST(CallFingerprintTest, KeysCannotTradeCharacters) {
  EXPECT_NE(Fingerprint(testing::DeleteOf({"ab", "c"})),
            Fingerprint(testing::DeleteOf({"a", "bc"})));
}

TEST(CallFingerprintTest, VerbsDiffer) {
  EXPECT_NE(Fingerprint(APush()), Fingerprint(PushPullRequest{APush()}));
  EXPECT_NE(Fingerprint(InitRequest()), Fingerprint(SetStateRequest()));
}

TEST(CallFingerprintTest, ElementsBeyondTheFirst64BytesDoNotCount) {
  std::vector<double> elements(17, 1);
  const InitRequest one = {.entries = {{"a", Vector(elements)}}};
  elements[16] = 2;
  const InitRequest other = {.entries = {{"a", Vector(elements)}}};

  EXPECT_EQ(Fingerprint(one), Fingerprint(other));
}

TEST(CallFingerprintTest, HyperparametersCount) {
  SetHyperparametersRequest request = {
      .hyperparameters = {{"learning_rate", 0.5}}};
  const uint64_t fingerprint = Fingerprint(request);
  request.hyperparameters["learning_rate"] = 0.25;

  EXPECT_NE(Fingerprint(request), fingerprint);
}

}  // namespace
}  // namespace tensorkv
