// The states of rules: set by SetState, read by GetState, by their names.

#include <atomic>
#include <string>
#include <vector>

#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kUpdateCount[] = "update_count";

uint64_t UpdateCountOf(const Caller& store, const std::string& key) {
  const absl::StatusOr<Value> count = store.GetState(key, kUpdateCount);
  EXPECT_OK(count);
  return count.ok() ? count->tensor.elements<uint64_t>()[0] : 0;
}

TEST_P(RuleContractTest, StatesAreReadByTheirNames) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, momentum=0.5)"));
  ASSERT_OK(store_.Init("w", Full({2, 3}, 1, DType::kBF16)));
  ASSERT_OK(store_.Push("w", Full({2, 3}, 4, DType::kBF16)));
  ASSERT_OK(store_.Push("w", Full({2, 3}, 0, DType::kBF16)));

  ASSERT_OK_AND_ASSIGN(
      const GetStateReply states,
      store_.GetStates(
          {{"w", "momentum"}, {"w", "master"}, {"w", kUpdateCount}}));

  EXPECT_THAT(store_.Stat("w")->states(), ElementsAre("momentum", "master"));
  const Tensor& momentum = states.values[0].tensor;
  EXPECT_EQ(momentum.Description(), "f32[2,3]");
  EXPECT_THAT(momentum, IsFilledWith(-2));
  EXPECT_THAT(states.values[1].tensor, IsFilledWith(-5));
  EXPECT_EQ(states.values[2].tensor.Description(), "u64[]");
  EXPECT_EQ(states.values[2].tensor.elements<uint64_t>()[0], 2);
  for (const Value& state : states.values) EXPECT_EQ(state.version, 3);
}

TEST_P(RuleContractTest, StatesBeforeTheFirstUpdateAreZeroAndTheValue) {
  ASSERT_OK(store_.SetRule("adam"));
  ASSERT_OK(store_.Init("w", Full({4}, 1.5, DType::kF16)));
  ASSERT_OK(store_.Init("x", Full({4}, 1)));

  EXPECT_THAT(store_.GetState("w", "variance"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(0)))));
  EXPECT_THAT(store_.GetState("w", "master"),
              IsOkAndHolds(HasTensor(IsFilledWith(1.5))));
  EXPECT_EQ(UpdateCountOf(store_, "w"), 0);
  EXPECT_THAT(store_.Stat("x")->states(), ElementsAre("mean", "variance"));
}

TEST_P(RuleContractTest, UpdatesGoOnFromStatesThatWereSet) {
  ASSERT_OK(store_.SetRule("adam(learning_rate=0.1)"));
  ASSERT_OK(store_.InitMany(
      {{"from", Full({3}, 1, DType::kF16)}, {"to", Full({3}, 9)}}));
  ASSERT_OK(store_.Push("from", Vector({1, -2, 3})));
  ASSERT_OK(store_.Push("from", Vector({2, 2, 2})));

  std::vector<SetStateEntry> states;
  for (const char* name : {"mean", "variance", "master", kUpdateCount}) {
    ASSERT_OK_AND_ASSIGN(const Value state, store_.GetState("from", name));
    states.push_back({"to", name, state.tensor});
  }
  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("from"));
  ASSERT_OK(store_.Init("to", value.tensor, OnExisting::kReplace));
  ASSERT_OK_AND_ASSIGN(const Value before, store_.Pull("to"));
  ASSERT_OK_AND_ASSIGN(const SetStateReply reply, store_.SetStates(states));
  EXPECT_EQ(reply.versions.back(), before.version);

  for (const char* key : {"from", "to"}) {
    ASSERT_OK(store_.Push(key, Vector({-1, 0, 5})));
  }
  ASSERT_OK_AND_ASSIGN(const Value expected, store_.Pull("from"));
  ASSERT_OK_AND_ASSIGN(const Value actual, store_.Pull("to"));
  EXPECT_EQ(ElementsOf(actual.tensor), ElementsOf(expected.tensor));
  EXPECT_EQ(UpdateCountOf(store_, "to"), 3);
}

TEST_P(RuleContractTest, LargeStatesAreSetAndRead) {
  constexpr int64_t kNumElements = 3 << 20;
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, momentum=0.5)"));
  ASSERT_OK(store_.Init("w", Full({kNumElements}, 0)));

  ASSERT_OK(store_.SetState("w", "momentum", Full({kNumElements}, 8)));
  ASSERT_OK(store_.Push("w", Full({kNumElements}, 0)));

  EXPECT_THAT(store_.GetState("w", "momentum"),
              IsOkAndHolds(HasTensor(IsFilledWith(4))));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(4))));
}

TEST_P(RuleContractTest, BadStatesAreRefusedAndChangeNothing) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1, momentum=0.5)"));
  ASSERT_OK(store_.Init("w", Full({2}, 0)));
  const struct {
    SetStateEntry entry;
    StatusCode code;
    const char* message;
  } kBad[] = {
      {{"w", "variance", Full({2}, 1)}, StatusCode::kNotFound, "variance"},
      {{"w", "master", Full({2}, 1)}, StatusCode::kNotFound, "master"},
      {{"x", "momentum", Full({2}, 1)}, StatusCode::kNotFound, "\"x\""},
      {{"w", "", Full({2}, 1)},
       StatusCode::kInvalidArgument,
       "expected the name of a state, got none"},
      {{"w", "momentum", Full({3}, 1)}, StatusCode::kInvalidArgument, "twice"},
      {{"w", kUpdateCount, Full({2}, 1)},
       StatusCode::kInvalidArgument,
       "expected u64[], got f32[2]"},
  };
  for (const auto& [entry, code, message] : kBad) {
    EXPECT_THAT(store_.SetStates({{"w", "momentum", Full({2}, 7)}, entry}),
                StatusIs(code, HasSubstr(message)));
  }
  EXPECT_THAT(store_.SetState("w", "momentum", Full({2, 1}, 1)),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected f32[2], got f32[2,1]")));

  EXPECT_EQ(ReasonOf(store_.GetState("w", "variance").status()),
            Reason::kStateNotFound);
  EXPECT_EQ(ReasonOf(store_.GetState("x", "momentum").status()),
            Reason::kKeyNotFound);
  EXPECT_THAT(store_.GetState("w", ""),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected the name of a state, got none")));
  EXPECT_THAT(store_.GetState("w", "momentum"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(0)))));
}

TEST_P(RuleContractTest, StateMayHaveOneElementForEachRow) {
  ASSERT_OK(store_.SetRule("groupadagrad(learning_rate=1, epsilon=0)"));
  ASSERT_OK(store_.Init("w", Full({2, 2}, 0)));
  ASSERT_OK(store_.Init("scalar", Full({}, 0)));
  ASSERT_OK(store_.Push("w", TensorOf({2, 2}, {1, 7, 2, 2})));
  ASSERT_OK(store_.Push("scalar", Full({}, 3)));

  ASSERT_OK_AND_ASSIGN(const Value history, store_.GetState("w", "history"));
  EXPECT_EQ(history.tensor.Description(), "f32[2]");
  EXPECT_THAT(ElementsOf(history.tensor), ElementsAre(25, 4));
  EXPECT_EQ(store_.Stat("w")->state_bytes(), 8);
  EXPECT_THAT(store_.GetState("scalar", "history"),
              IsOkAndHolds(HasTensor(IsFilledWith(9))));
  ASSERT_OK(store_.SetState("w", "history", Vector({0, 12})));
  ASSERT_OK(store_.Push("w", TensorOf({2, 2}, {1, 1, 2, 2})));

  EXPECT_THAT(store_.GetState("w", "history"),
              IsOkAndHolds(HasTensor(HasElements({1, 16}))));
}

TEST_P(RuleContractTest, KeysWithoutARuleThatKeepsStatesHaveACountAlone) {
  ASSERT_OK(store_.Init("w", Full({2}, 0, DType::kI32)));
  ASSERT_OK(store_.Push("w", Full({2}, 1, DType::kI32)));

  EXPECT_THAT(store_.Stat("w")->states(), IsEmpty());
  EXPECT_EQ(UpdateCountOf(store_, "w"), 1);
  EXPECT_THAT(store_.GetState("w", "momentum"),
              StatusIs(StatusCode::kNotFound));
}

// A state and the version that comes with it are of one moment, whatever is
// pushed meanwhile.
TEST_P(RuleContractTest, StatesAreReadBetweenUpdates) {
  constexpr int64_t kNumElements = 5000;
  constexpr int kNumPushes = 40;
  ASSERT_OK(store_.SetRule("expression: state n; n += grad; stored -= n"));
  ASSERT_OK(store_.Init("w", Full({kNumElements}, 0)));
  std::atomic<int> num_pushed = 0;

  RunConcurrently(3, [&](int thread) {
    if (thread > 0) {
      for (int i = 0; i < kNumPushes; ++i) {
        EXPECT_OK(store_.Push("w", Full({kNumElements}, 1)));
        ++num_pushed;
      }
      return;
    }
    do {
      ASSERT_OK_AND_ASSIGN(const GetStateReply states,
                           store_.GetStates({{"w", "n"}, {"w", kUpdateCount}}));
      const double count = static_cast<double>(states.values[0].version - 1);
      ASSERT_THAT(states.values[0].tensor, IsFilledWith(count));
      ASSERT_EQ(states.values[1].tensor.elements<uint64_t>()[0], count);
    } while (num_pushed < 2 * kNumPushes);
  });
  EXPECT_EQ(UpdateCountOf(store_, "w"), 2 * kNumPushes);
}

TEST_P(SyncContractTest, StatesAreReadWhileARoundIsOpen) {
  const Caller store = NewSyncNamespace(2, "sgd(momentum=0.5)");
  ASSERT_OK(store.Init("w", Full({2}, 0)));
  ASSERT_OK(store.As(0).Push("w", Full({2}, 1), 1));

  EXPECT_THAT(store.As(0).GetState("w", "momentum"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(0)))));
  ASSERT_OK(store.SetState("w", kUpdateCount, TensorOf({}, {6}, DType::kU64)));

  ASSERT_OK(store.As(1).Push("w", Full({2}, 1), 1));
  ASSERT_OK(store.As(1).Pull("w"));
  EXPECT_EQ(UpdateCountOf(store, "w"), 7);

  const Tensor endless = Full({}, 0x1p60, DType::kU64);
  EXPECT_THAT(store.SetState("w", kUpdateCount, endless),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected at most")));
  EXPECT_EQ(UpdateCountOf(store, "w"), 7);
}

}  // namespace
}  // namespace tensorkv::testing
