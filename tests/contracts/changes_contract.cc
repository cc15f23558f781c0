// Pulls that ask for what has changed.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/snapshot_references.h"
#include "tensor/delta/delta_decoder.h"
#include "tensor/delta/delta_encoder.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::testing::AllOf;

constexpr int64_t kNumElements = 5000;

// Has 1 everywhere but at `position`, where it has `element`.
Tensor Changed(int64_t position, float element) {
  Tensor tensor = Full({kNumElements}, 1);
  tensor.mutable_elements<float>()[position] = element;
  return tensor;
}

PullChanges AllEncodings() {
  PullChanges changes;
  for (int i = 0; i < kNumDeltaEncodings; ++i) {
    changes.add_encodings(static_cast<v1::DeltaEncoding>(i));
  }
  return changes;
}

struct Asked {
  std::string key = "w";
  std::string held;
  DType dtype = DType::kUnknown;
  std::optional<SnapshotReference> at;
  PullChanges changes = AllEncodings();
};

absl::StatusOr<Value> Pull(const Caller& store, const Asked& asked) {
  PullRequest request = {.dtype = asked.dtype,
                         .entries = {{asked.key, 0, nullptr, asked.held}},
                         .at = asked.at,
                         .changes = asked.changes};
  ASSIGN_OR_RETURN(PullReply reply, store.Call(request));
  return std::move(reply.values.front());
}

void Create(const Caller& store, v1::DType dtype = v1::DTYPE_UNSPECIFIED) {
  CreateSnapshotRequest request;
  request.set_series("s");
  request.set_dtype(dtype);
  EXPECT_OK(store.Call(request));
}

std::string TokenOf(const Caller& store, const Asked& asked) {
  const absl::StatusOr<Value> value = Pull(store, asked);
  EXPECT_OK(value.status());
  if (!value.ok() || !value->change) return "";
  return value->change->token;
}

// Returns the whole value that the delta makes of `held`.
absl::StatusOr<Tensor> Decode(const Value& value, const Tensor& held) {
  ASSIGN_OR_RETURN(Tensor whole, Tensor::Allocate(held.dtype(), held.shape()));
  RETURN_IF_ERROR(DecodeDelta(
      {value.tensor.data(), static_cast<size_t>(value.tensor.size_bytes())},
      value.change->delta->digest, held.view(), whole.mutable_view()));
  return whole;
}

MATCHER(IsUnchanged, "") {
  return arg.change && arg.change->unchanged && !arg.change->delta &&
         arg.tensor.num_elements() == 0;
}
MATCHER(IsADelta, "") {
  return arg.change && arg.change->delta && !arg.change->unchanged;
}
MATCHER(IsWhole, "") { return arg.is_whole() && arg.tensor.num_elements() > 0; }

TEST_P(ChangesContractTest, WhoDoesNotAskGetsNoTokens) {
  ASSERT_OK(store_.Init("w", Changed(0, 1)));

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));

  EXPECT_FALSE(value.change);
}

TEST_P(ChangesContractTest, WhatIsHeldIsUnchanged) {
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  ASSERT_OK_AND_ASSIGN(const Value first, Pull(store_, {}));
  EXPECT_THAT(first, IsWhole());

  ASSERT_OK_AND_ASSIGN(const Value again,
                       Pull(store_, {.held = first.change->token}));

  EXPECT_THAT(again, IsUnchanged());
  EXPECT_EQ(again.version, first.version);
  ASSERT_OK(store_.Push("w", Changed(0, 2)));
  EXPECT_THAT(Pull(store_, {.held = first.change->token}),
              IsOkAndHolds(IsWhole()));
}

TEST_P(ChangesContractTest, OfASnapshotsValueOnlyTheChangesCome) {
  if (!has_deltas()) GTEST_SKIP() << "the elements are on a device";
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  Create(store_);
  const std::string token = TokenOf(store_, {.at = SnapshotOf("s", 1)});
  ASSERT_OK(store_.Push("w", Changed(7, 3)));
  Create(store_);

  for (const auto& at : {std::optional<SnapshotReference>(),
                         std::optional(LatestSnapshot("s"))}) {
    ASSERT_OK_AND_ASSIGN(const Value value,
                         Pull(store_, {.held = token, .at = at}));
    ASSERT_THAT(value, IsADelta());
    EXPECT_LT(value.tensor.size_bytes(), 100);
    ASSERT_OK_AND_ASSIGN(const Tensor whole, Decode(value, Changed(0, 1)));
    EXPECT_EQ(DigestOf(whole.view()), DigestOf(Changed(7, 3).view()));
    EXPECT_EQ(value.version, 2);
  }
}

TEST_P(ChangesContractTest, AnOlderSnapshotIsReadAsAChangeToo) {
  if (!has_deltas()) GTEST_SKIP() << "the elements are on a device";
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  Create(store_);
  ASSERT_OK(store_.Push("w", Changed(7, 3)));
  const std::string token = TokenOf(store_, {});

  ASSERT_OK_AND_ASSIGN(const Value value,
                       Pull(store_, {.held = token, .at = SnapshotOf("s", 1)}));

  ASSERT_THAT(value, IsADelta());
  ASSERT_OK_AND_ASSIGN(const Tensor whole, Decode(value, Changed(7, 3)));
  EXPECT_EQ(DigestOf(whole.view()), DigestOf(Changed(0, 1).view()));
}

TEST_P(ChangesContractTest, ChangesAreOfTheValueAsItIsConverted) {
  if (!has_deltas()) GTEST_SKIP() << "the elements are on a device";
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  Create(store_);
  const Asked first = {.dtype = DType::kBF16, .at = SnapshotOf("s", 1)};
  ASSERT_OK_AND_ASSIGN(const Value held, Pull(store_, first));
  ASSERT_OK(store_.Push("w", Changed(7, 3)));

  ASSERT_OK_AND_ASSIGN(
      const Value value,
      Pull(store_, {.held = held.change->token, .dtype = DType::kBF16}));

  ASSERT_THAT(value, IsADelta());
  ASSERT_OK_AND_ASSIGN(const Tensor whole, Decode(value, held.tensor));
  ASSERT_OK_AND_ASSIGN(const Value expected,
                       Pull(store_, {.dtype = DType::kBF16}));
  EXPECT_EQ(DigestOf(whole.view()), DigestOf(expected.tensor.view()));
  // What was given as another dtype is not what is held.
  EXPECT_THAT(Pull(store_, {.held = held.change->token}),
              IsOkAndHolds(IsWhole()));
}

TEST_P(ChangesContractTest, ChangesAreOfTheValueAsItsSnapshotConvertsIt) {
  if (!has_deltas()) GTEST_SKIP() << "the elements are on a device";
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  Create(store_, v1::DTYPE_BF16);
  const SnapshotReference first = SnapshotOf("s", 1);
  ASSERT_OK_AND_ASSIGN(const Value held, Pull(store_, {.at = first}));
  EXPECT_EQ(held.tensor.dtype(), DType::kBF16);
  ASSERT_OK(store_.Push("w", Changed(7, 3)));
  Create(store_, v1::DTYPE_BF16);

  ASSERT_OK_AND_ASSIGN(
      const Value value,
      Pull(store_, {.held = held.change->token, .at = LatestSnapshot("s")}));

  ASSERT_THAT(value, IsADelta());
  ASSERT_OK_AND_ASSIGN(const Tensor whole, Decode(value, held.tensor));
  ASSERT_OK_AND_ASSIGN(const Value expected,
                       Pull(store_, {.dtype = DType::kBF16}));
  EXPECT_EQ(DigestOf(whole.view()), DigestOf(expected.tensor.view()));
  EXPECT_THAT(Pull(store_, {.held = held.change->token, .at = first}),
              IsOkAndHolds(IsUnchanged()));
  EXPECT_THAT(Pull(store_, {.held = value.change->token}),
              IsOkAndHolds(IsWhole()));
}

TEST_P(ChangesContractTest, WhoTakesNoEncodingGetsTheWhole) {
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  Create(store_);
  const std::string token = TokenOf(store_, {.at = SnapshotOf("s", 1)});
  ASSERT_OK(store_.Push("w", Changed(7, 3)));

  EXPECT_THAT(Pull(store_, {.held = token, .changes = {}}),
              IsOkAndHolds(IsWhole()));
}

TEST_P(ChangesContractTest, WhereTheWholeIsSmallerItComes) {
  ASSERT_OK(store_.Init("w", Full({2}, 1)));
  Create(store_);
  const std::string token = TokenOf(store_, {.at = SnapshotOf("s", 1)});
  ASSERT_OK(store_.Push("w", Full({2}, 3)));

  EXPECT_THAT(Pull(store_, {.held = token}),
              IsOkAndHolds(AllOf(IsWhole(), HasTensor(IsFilledWith(3)))));
}

TEST_P(ChangesContractTest, TokensOfAnythingElseGetTheWhole) {
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  ASSERT_OK(store_.Init("v", Changed(0, 1)));
  const Caller other = NewNamespace("other", {});
  ASSERT_OK(other.Init("w", Changed(0, 1)));
  std::vector<std::string> tokens = {"",
                                     "x",
                                     std::string(1000, 'x'),
                                     std::string(34, '\0'),
                                     TokenOf(store_, {.key = "v"}),
                                     TokenOf(other, {})};
  const std::string token = TokenOf(store_, {});
  for (size_t i = 0; i < token.size(); ++i) {
    std::string damaged = token;
    damaged[i] ^= 1;
    // Where the namespace looks first is no matter of what the token names.
    if (i < 26) tokens.push_back(damaged);
  }
  tokens.push_back(token.substr(1));

  for (const std::string& each : tokens) {
    EXPECT_THAT(Pull(store_, {.held = each}), IsOkAndHolds(IsWhole()));
  }
}

TEST_P(ChangesContractTest, KeyThatIsMadeAgainHasAnotherValue) {
  ASSERT_OK(store_.Init("w", Changed(0, 1)));
  const std::string token = TokenOf(store_, {});
  ASSERT_OK(store_.Delete({"w"}));
  ASSERT_OK(store_.Init("w", Changed(0, 5)));

  EXPECT_THAT(Pull(store_, {.held = token}), IsOkAndHolds(IsWhole()));
}

TEST_P(ChangesContractTest, LargeValuesAreComparedInPieces) {
  if (!has_deltas()) GTEST_SKIP() << "the elements are on a device";
  constexpr int64_t kLarge = 3 << 20;
  ASSERT_OK(store_.Init("w", Full({kLarge}, 1)));
  Create(store_);
  const std::string token = TokenOf(store_, {.at = SnapshotOf("s", 1)});
  Tensor pushed = Full({kLarge}, 1);
  for (int64_t i = 0; i < kLarge; i += 10007) {
    pushed.mutable_elements<float>()[i] = 2;
  }
  ASSERT_OK(store_.Push("w", pushed));

  ASSERT_OK_AND_ASSIGN(const Value value, Pull(store_, {.held = token}));

  ASSERT_THAT(value, IsADelta());
  ASSERT_OK_AND_ASSIGN(const Tensor whole, Decode(value, Full({kLarge}, 1)));
  EXPECT_EQ(DigestOf(whole.view()), DigestOf(pushed.view()));
}

TEST_P(ChangesContractTest, DeltasOfManyKeysComeTogether) {
  if (!has_deltas()) GTEST_SKIP() << "the elements are on a device";
  constexpr int kNumKeys = 40;
  PullRequest pull = {.changes = AllEncodings()};
  for (int i = 0; i < kNumKeys; ++i) {
    pull.entries.push_back({absl::StrCat("k", i)});
    ASSERT_OK(store_.Init(pull.entries.back().key, Changed(i, 2)));
  }
  Create(store_);
  ASSERT_OK_AND_ASSIGN(const PullReply first, store_.Call(pull));
  for (int i = 0; i < kNumKeys; ++i) {
    pull.entries[i].held = first.values[i].change->token;
    if (i % 2 == 1) continue;
    ASSERT_OK(store_.Push(pull.entries[i].key, Changed(i, 3)));
  }

  ASSERT_OK_AND_ASSIGN(const PullReply reply, store_.Call(pull));

  for (int i = 0; i < kNumKeys; ++i) {
    if (i % 2 == 1) {
      EXPECT_THAT(reply.values[i], IsUnchanged());
      continue;
    }
    ASSERT_THAT(reply.values[i], IsADelta());
    ASSERT_OK_AND_ASSIGN(const Tensor whole,
                         Decode(reply.values[i], Changed(i, 2)));
    EXPECT_EQ(whole.elements<float>()[i], 3);
  }
}

}  // namespace
}  // namespace tensorkv::testing
