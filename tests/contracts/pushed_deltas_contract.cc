// Pushes of what has changed since a value.

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/snapshot_references.h"
#include "tests/contracts/pushed_deltas.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace pushed_deltas_contract {

using ::absl::StatusCode;
using ::testing::Each;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_P(ChangesContractTest, WhoDoesNotAskForTokensOfPushesGetsNone) {
  ASSERT_OK(store_.Init("w", Changed(0, 1)));

  EXPECT_THAT(store_.Push("w", Changed(0, 2)),
              IsOkAndHolds(Field(&PushResult::token, IsEmpty())));
}

TEST_P(ChangesContractTest, OnADeviceThereAreNoPushesOfDeltas) {
  if (has_deltas()) GTEST_SKIP() << "the elements are on the host";
  const std::string token = Begin(store_, "w", Changed(0, 1));

  EXPECT_THAT(token, IsEmpty());
  EXPECT_THAT(Push(store_, {EntryOf("w", token, Changed(0, 1), Changed(0, 2))}),
              StatusIs(StatusCode::kUnimplemented));
}

// What a push of the whole makes, to the bit, whatever the elements are.
TEST_P(ChangesContractTest, PushOfADeltaMakesWhatAPushOfTheWholeDoes) {
  SKIP_WITHOUT_DELTAS();
  std::mt19937_64 random(7);
  for (int number = 1; number <= 15; ++number) {
    const DType dtype = *DTypeFromNumber(number);
    for (const Shape& shape : {Shape({3, 700}), Shape(), Shape({0, 4})}) {
      const std::string key = absl::StrCat(number, ".", shape.num_elements());
      SCOPED_TRACE(absl::StrCat(Description(dtype, shape)));
      Tensor value = RandomTensor(dtype, shape, random);
      std::string token = Begin(store_, key, value);
      ASSERT_OK(store_.Init("whole" + key, value));
      for (const uint64_t one_in : {1000, 1, 30}) {
        const Tensor next = Altered(value, one_in, random);
        ASSERT_OK_AND_ASSIGN(const PushReply reply,
                             Push(store_, {EntryOf(key, token, value, next)}));
        ASSERT_OK(store_.Push("whole" + key, next));
        ASSERT_OK_AND_ASSIGN(const Value got, store_.Pull(key));
        ASSERT_OK_AND_ASSIGN(const Value whole, store_.Pull("whole" + key));
        EXPECT_EQ(BytesOf(got.tensor), BytesOf(whole.tensor));
        EXPECT_EQ(BytesOf(got.tensor), BytesOf(next));
        EXPECT_EQ(got.version, reply.results.front().version);
        token = reply.results.front().token;
        value = next;
      }
    }
  }
}

TEST_P(ChangesContractTest, LargeDeltasArePushedToo) {
  SKIP_WITHOUT_DELTAS();
  std::mt19937_64 random(8);
  const Tensor first = RandomTensor(DType::kBF16, {3, 1 << 19}, random);
  const Tensor second = Altered(first, 50, random);
  const Tensor third = RandomTensor(DType::kBF16, {3, 1 << 19}, random);
  const std::string token = Begin(store_, "w", first);

  ASSERT_OK_AND_ASSIGN(const PushReply reply,
                       Push(store_, {EntryOf("w", token, first, second)}));
  EXPECT_EQ(BytesOf(store_.Pull("w")->tensor), BytesOf(second));
  ASSERT_OK(
      Push(store_, {EntryOf("w", reply.results.front().token, second, third)}));

  EXPECT_EQ(BytesOf(store_.Pull("w")->tensor), BytesOf(third));
  EXPECT_EQ(store_.Stat("w", true)->digest(), DigestOf(third.view()));
}

TEST_P(ChangesContractTest, OnceTheValueIsAnotherADeltaIsRefused) {
  SKIP_WITHOUT_DELTAS();
  const std::string token = Begin(store_, "w", Changed(0, 1));
  ASSERT_OK_AND_ASSIGN(const PushResult other, store_.Push("w", Changed(0, 2)));

  EXPECT_THAT(Push(store_, {EntryOf("w", token, Changed(0, 1), Changed(7, 3))}),
              HasChanged());

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(BytesOf(value.tensor), BytesOf(Changed(0, 2)));
  EXPECT_EQ(value.version, other.version);
}

// What a delete and an Init make is another value, whatever it is.
TEST_P(ChangesContractTest, KeyThatIsMadeAgainTakesNoOlderDelta) {
  SKIP_WITHOUT_DELTAS();
  const std::string token = Begin(store_, "w", Changed(0, 1));
  ASSERT_OK(store_.Delete({"w"}));

  EXPECT_THAT(Push(store_, {EntryOf("w", token, Changed(0, 1), Changed(0, 2))}),
              HasReason(Reason::kKeyNotFound));
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  EXPECT_THAT(Push(store_, {EntryOf("w", token, Changed(0, 1), Changed(0, 2))}),
              HasChanged());
}

TEST_P(ChangesContractTest, DeltasBuildOnTokensOfTheirKeysValueAlone) {
  SKIP_WITHOUT_DELTAS();
  const std::string token = Begin(store_, "w", Changed(0, 1));
  const std::string others = Begin(store_, "v", Changed(0, 1));
  const Caller elsewhere = NewNamespace("n", {});
  const std::string of_another = Begin(elsewhere, "w", Changed(0, 1));
  std::string other_dtype = token;
  other_dtype[1] = static_cast<char>(DType::kBF16);

  for (const std::string& base :
       {std::string(), std::string("w"), std::string(1000, 't'), others,
        of_another, other_dtype, token + "x"}) {
    EXPECT_THAT(
        Push(store_, {EntryOf("w", base, Changed(0, 1), Changed(0, 2))}),
        HasChanged());
  }
  EXPECT_OK(Push(store_, {EntryOf("w", token, Changed(0, 1), Changed(0, 2))}));
}

TEST_P(ChangesContractTest, DeltasBuildOnTokensOfPullsToo) {
  SKIP_WITHOUT_DELTAS();
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  PullRequest pull = {.entries = {{"w"}}, .changes = PullChanges()};
  ASSERT_OK_AND_ASSIGN(const PullReply held, store_.Call(pull));
  const std::string base = held.values.front().change->token;

  ASSERT_OK_AND_ASSIGN(
      const PushReply reply,
      Push(store_, {EntryOf("w", base, Changed(0, 1), Changed(0, 2))}));

  // And pulls show tokens of pushes.
  pull.entries.front().held = reply.results.front().token;
  ASSERT_OK_AND_ASSIGN(const PullReply again, store_.Call(pull));
  EXPECT_TRUE(again.values.front().change->unchanged);
}

TEST_P(ChangesContractTest, OneWrongDeltaLeavesAllOfACallAsItWas) {
  SKIP_WITHOUT_DELTAS();
  if (is_cluster()) GTEST_SKIP() << "keys of one server are meant";
  const Tensor from = Changed(0, 1);
  const Tensor to = Changed(0, 2);
  const std::string token = Begin(store_, "w", from);
  const std::string others = Begin(store_, "v", from);
  const auto push = [&](PushEntry wrong) {
    return Push(store_, {{.key = "v", .tensor = to}, std::move(wrong)});
  };

  EXPECT_THAT(push(EntryOf("w", others, from, to)), HasChanged());
  EXPECT_THAT(push(EntryOf("w", token, DeltaOf(from, to), 0)), IsMalformed());
  EXPECT_EQ(BytesOf(store_.Pull("v")->tensor), BytesOf(from));

  ASSERT_OK_AND_ASSIGN(const PushReply reply,
                       push(EntryOf("w", token, from, to)));
  EXPECT_THAT(reply.results, Each(Field(&PushResult::token, Not(IsEmpty()))));
  for (const std::string key : {"v", "w"}) {
    EXPECT_EQ(BytesOf(store_.Pull(key)->tensor), BytesOf(to));
  }
}

TEST_P(ChangesContractTest, DeltasGoToKeysWithTheRuleAssign) {
  SKIP_WITHOUT_DELTAS();
  const std::string token = Begin(store_, "w", Changed(0, 1));
  const PushEntry entry = EntryOf("w", token, Changed(0, 1), Changed(0, 2));
  ASSERT_OK(store_.SetRule("accumulate"));

  EXPECT_THAT(Push(store_, {entry}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(BytesOf(store_.Pull("w")->tensor), BytesOf(Changed(0, 1)));
}

// Who gets a token may take it that the key has what was pushed.
TEST_P(ChangesContractTest, TokensAreOfWhatWasPushedOrThereIsNone) {
  const Tensor tensor = Changed(0, 2);
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  ASSERT_OK(store_.Init("half", Full({kNumElements}, 0, DType::kBF16)));
  const PushEntry whole = {.key = "w", .tensor = tensor};
  PushEntry weighs = whole;
  weighs.weight = 2;
  const auto refused = StatusIs(StatusCode::kInvalidArgument);

  EXPECT_THAT(Push(store_, {whole, whole}), refused);
  EXPECT_THAT(Push(store_, {weighs}), refused);
  EXPECT_THAT(Push(store_, {{.key = "half", .tensor = tensor}}), refused);
  ASSERT_OK(store_.SetRule("accumulate"));
  EXPECT_THAT(Push(store_, {whole}), refused);
  const Caller guarded =
      NewNamespace("g", {.gradient_guard = GradientGuard{.max_norm = 1}});
  ASSERT_OK(guarded.Init("w", Changed(0, 1)));
  EXPECT_THAT(Push(guarded, {whole}), refused);

  EXPECT_EQ(BytesOf(store_.Pull("w")->tensor), BytesOf(Changed(0, 1)));
  EXPECT_EQ(BytesOf(guarded.Pull("w")->tensor), BytesOf(Changed(0, 1)));
}

TEST_P(ChangesContractTest, UnderAGuardThereAreNoDeltas) {
  SKIP_WITHOUT_DELTAS();
  const Caller guarded =
      NewNamespace("g", {.gradient_guard = GradientGuard{.max_norm = 1}});
  ASSERT_OK(guarded.Init("w", Changed(0, 1)));
  ASSERT_OK_AND_ASSIGN(
      const PullReply held,
      guarded.Call(PullRequest{.entries = {{"w"}}, .changes = PullChanges()}));

  EXPECT_THAT(guarded.Call(PushRequest{
                  .entries = {EntryOf("w", held.values.front().change->token,
                                      Changed(0, 1), Changed(0, 2))}}),
              StatusIs(StatusCode::kInvalidArgument));
}

// Small tensors share memory as they are decoded.
TEST_P(ChangesContractTest, ManyDeltasComeInOneCall) {
  SKIP_WITHOUT_DELTAS();
  std::mt19937_64 random(9);
  std::vector<PushEntry> entries;
  std::vector<Tensor> next;
  for (int64_t i = 0; i < 40; ++i) {
    const std::string key = absl::StrCat("w", i);
    const Tensor from = RandomTensor(DType::kF16, {i * i}, random);
    next.push_back(Altered(from, 20, random));
    entries.push_back(
        EntryOf(key, Begin(store_, key, from), from, next.back()));
  }

  ASSERT_OK(Push(store_, entries));

  for (size_t i = 0; i < next.size(); ++i) {
    EXPECT_EQ(BytesOf(store_.Pull(entries[i].key)->tensor), BytesOf(next[i]));
  }
}

// Each server answers for its keys.
TEST_P(ChangesContractTest, OfAClusterSomeServersMayHaveTakenTheirs) {
  if (!is_cluster()) GTEST_SKIP() << "one server takes all or nothing";
  const Tensor from = Changed(0, 1);
  std::vector<PushEntry> entries;
  for (int i = 0; i < 16; ++i) {
    const std::string key = absl::StrCat("w", i);
    entries.push_back(
        EntryOf(key, Begin(store_, key, from), from, Changed(0, 2)));
  }
  ASSERT_OK(store_.Push("w3", from));

  EXPECT_THAT(Push(store_, entries), HasReason(Reason::kOutcomeUnknown));
}

TEST_P(ChangesContractTest, DeltasComeAloneForTheirKeyAndAsTheyAre) {
  SKIP_WITHOUT_DELTAS();
  const std::string token = Begin(store_, "w", Changed(0, 1));
  const PushEntry entry = EntryOf("w", token, Changed(0, 1), Changed(0, 2));
  PushEntry weighs = entry;
  weighs.weight = 2;
  const PushEntry whole = {.key = "w", .tensor = Changed(0, 1)};

  for (const std::vector<PushEntry>& entries :
       {std::vector{entry, entry}, std::vector{whole, entry},
        std::vector{entry, whole}, std::vector{weighs}}) {
    EXPECT_THAT(Push(store_, entries), StatusIs(StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(store_.PushPullMany({entry}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_.Call(PushPullRequest{
                  PushRequest{.entries = {whole}, .with_tokens = true}}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(BytesOf(store_.Pull("w")->tensor), BytesOf(Changed(0, 1)));
}

TEST_P(ChangesContractTest, RoundsTakeNoDeltas) {
  const Caller sync = NewSyncNamespace(1);
  ASSERT_OK(sync.Init("w", Changed(0, 1)));
  PushRequest request = {
      .worker = Worker{.rank = 0},
      .step = 1,
      .entries = {EntryOf("w", "t", Changed(0, 1), Changed(0, 2))}};

  EXPECT_THAT(sync.Call(request), StatusIs(StatusCode::kInvalidArgument));
  request.entries = {{.key = "w", .tensor = Changed(0, 2)}};
  request.with_tokens = true;
  EXPECT_THAT(sync.Call(request), StatusIs(StatusCode::kInvalidArgument));
}

TEST_P(ChangesContractTest, RepeatedCallWithADeltaIsAnsweredAsTheFirst) {
  SKIP_WITHOUT_DELTAS();
  const std::string token = Begin(store_, "w", Changed(0, 1));
  const PushRequest request = {
      .call_id = CallId{.client_id = std::string(16, 'c'), .sequence = 1},
      .entries = {EntryOf("w", token, Changed(0, 1), Changed(0, 2))},
      .with_tokens = true};
  ASSERT_OK_AND_ASSIGN(const PushReply first, store_.Call(request));

  ASSERT_OK_AND_ASSIGN(const PushReply again, store_.Call(request));

  EXPECT_EQ(again.results.front().version, first.results.front().version);
  EXPECT_EQ(again.results.front().token, first.results.front().token);
  PushRequest other = request;
  other.entries = {EntryOf("w", "t", Changed(0, 1), Changed(0, 2))};
  EXPECT_THAT(store_.Call(other), HasReason(Reason::kCallIdReused));
}

TEST_P(ChangesContractTest, ContributionThatIsThereNeedsNoBase) {
  SKIP_WITHOUT_DELTAS();
  if (is_cluster()) GTEST_SKIP() << "no mode bounded there";
  const Caller bounded =
      NewNamespace("b", {.mode = Mode::kBounded, .num_workers = 1});
  ASSERT_OK(bounded.Init("w", Changed(0, 1)));
  PushRequest request = {
      .call_id = CallId{.client_id = std::string(16, 'c'), .sequence = 1},
      .worker = Worker{.rank = 0},
      .step = 1,
      .entries = {{.key = "w", .tensor = Changed(0, 2)}},
      .with_tokens = true};
  ASSERT_OK_AND_ASSIGN(const PushReply first, bounded.Call(request));
  request.step = request.call_id->sequence = 2;
  request.entries = {
      EntryOf("w", first.results.front().token, Changed(0, 2), Changed(0, 3))};
  ASSERT_OK_AND_ASSIGN(const PushReply second, bounded.Call(request));

  request.call_id->sequence = 3;
  ASSERT_OK_AND_ASSIGN(const PushReply again, bounded.Call(request));

  EXPECT_FALSE(second.results.front().repeated);
  EXPECT_TRUE(again.results.front().repeated);
  EXPECT_EQ(again.results.front().version, second.results.front().version);
  EXPECT_EQ(BytesOf(bounded.Pull("w")->tensor), BytesOf(Changed(0, 3)));
}

// The base counts when the wait is over.
TEST_P(ChangesContractTest, DeltaMayWaitForSlowerWorkers) {
  SKIP_WITHOUT_DELTAS();
  if (is_cluster()) GTEST_SKIP() << "no mode bounded there";
  const Caller bounded =
      NewNamespace("b", {.mode = Mode::kBounded, .num_workers = 2});
  ASSERT_OK(bounded.Init("w", Changed(0, 1)));
  ASSERT_OK(bounded.Init("v", Changed(0, 1)));
  const auto push = [&](Step step, PushEntry entry) {
    return bounded.Call(PushRequest{.worker = Worker{.rank = 0},
                                    .step = step,
                                    .entries = {std::move(entry)},
                                    .with_tokens = true});
  };
  ASSERT_OK_AND_ASSIGN(const PushReply first,
                       push(1, {.key = "w", .tensor = Changed(0, 2)}));
  const auto next = [&](Step step, const PushReply& last, float from) {
    return Background([&, step, last, from] {
      return push(step, EntryOf("w", last.results.front().token,
                                Changed(0, from), Changed(0, from + 1)));
    });
  };

  Background second = next(2, first, 2);
  AwaitWaitingCalls(bounded, 1);
  ASSERT_OK(bounded.As(1).Push("v", Changed(0, 9), 1));
  const absl::StatusOr<PushReply> pushed = second.Result();
  ASSERT_OK(pushed.status());
  EXPECT_EQ(BytesOf(bounded.Pull("w")->tensor), BytesOf(Changed(0, 3)));

  Background third = next(3, *pushed, 3);
  AwaitWaitingCalls(bounded, 1);
  ASSERT_OK(bounded.As(1).Push("w", Changed(0, 9), 2));
  EXPECT_THAT(third.Result(), HasChanged());
  EXPECT_EQ(BytesOf(bounded.Pull("w")->tensor), BytesOf(Changed(0, 9)));
}

TEST_P(ChangesContractTest, PushOfADeltaPublishes) {
  SKIP_WITHOUT_DELTAS();
  const std::string token = Begin(store_, "w", Changed(0, 1));
  PublishAs publish_as;
  publish_as.set_series("s");

  ASSERT_OK_AND_ASSIGN(
      const PushReply reply,
      store_.Call(PushRequest{
          .entries = {EntryOf("w", token, Changed(0, 1), Changed(0, 2))},
          .publish_as = publish_as}));

  ASSERT_TRUE(reply.published);
  ASSERT_OK(store_.Push("w", Changed(0, 3)));
  ASSERT_OK_AND_ASSIGN(
      const PullReply published,
      store_.Call(PullRequest{.entries = {{"w"}}, .at = LatestSnapshot("s")}));
  EXPECT_EQ(BytesOf(published.values.front().tensor), BytesOf(Changed(0, 2)));
}

TEST_P(ChangesContractTest, DeltaNeedsTheMemoryOfTheWhole) {
  SKIP_WITHOUT_DELTAS();
  const Caller small = NewNamespace("n", {.budget_bytes = 1 << 20});
  const Tensor from = Full({150'000}, 1);
  Tensor to = Full({150'000}, 1);
  to.mutable_elements<float>()[5] = 2;
  ASSERT_OK(small.Init("w", from));
  ASSERT_OK_AND_ASSIGN(
      const PullReply held,
      small.Call(PullRequest{.entries = {{"w"}}, .changes = PullChanges()}));

  EXPECT_THAT(
      Push(small, {EntryOf("w", held.values.front().change->token, from, to)}),
      HasReason(Reason::kOverBudget));

  EXPECT_EQ(BytesOf(small.Pull("w")->tensor), BytesOf(from));
  EXPECT_EQ(small.Describe()->memory().contributions(), 0);
}

// Each adds 1 to an element, and begins again where somebody was faster: were a
// delta taken for another base, one of them would be lost.
TEST_P(ChangesContractTest, OfDeltasFromOneBaseOneIsTaken) {
  SKIP_WITHOUT_DELTAS();
  constexpr int kThreads = 4;
  constexpr int kTimes = 10;
  ASSERT_OK(store_.Init("w", Changed(0, 0)));

  RunConcurrently(kThreads, [&](int thread) {
    for (int done = 0; done < kTimes;) {
      const absl::StatusOr<PullReply> held = store_.Call(
          PullRequest{.entries = {{"w"}}, .changes = PullChanges()});
      ASSERT_OK(held.status());
      const Value& value = held->values.front();
      Tensor next = Tensor::CopyOf(value.tensor.dtype(), value.tensor.shape(),
                                   value.tensor.data())
                        .value();
      next.mutable_elements<float>()[thread] += 1;
      const absl::StatusOr<PushReply> reply =
          Push(store_, {EntryOf("w", value.change->token, value.tensor, next)});
      if (reply.ok()) ++done;
      if (!reply.ok()) ASSERT_THAT(reply.status(), HasChanged());
    }
  });

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(value.tensor.elements<float>()[0], kTimes);
  for (int thread = 1; thread < kThreads; ++thread) {
    EXPECT_EQ(value.tensor.elements<float>()[thread], kTimes + 1);
  }
}

}  // namespace pushed_deltas_contract
}  // namespace tensorkv::testing
