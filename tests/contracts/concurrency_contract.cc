// Many callers at once: nothing is lost, nothing is torn.

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::AnyOf;

// Pulls until it sees `last`; every value is whole, versions never fall.
void ReadUntil(const Caller& store, const std::string& key, Version last) {
  Version seen = 0;
  while (seen < last) {
    ASSERT_OK_AND_ASSIGN(const Value value, store.Pull(key));
    EXPECT_GE(value.version, seen);
    EXPECT_THAT(value.tensor,
                IsFilledWith(static_cast<double>(value.version - 1)));
    seen = value.version;
  }
}

TEST_P(ConcurrencyContractTest, ReadersSeeWholeValuesInOrder) {
  constexpr int kPushers = 2;
  constexpr int kReaders = 2;
  constexpr int kPushes = 15;
  const Shape shape({64, 1024});
  ASSERT_OK(store_.SetRule("accumulate", "sum"));
  ASSERT_OK(store_.InitMany({{"sum", Full(shape, 0)}, {"w", Full(shape, 0)}}));

  RunConcurrently(kPushers + kReaders, [&](int thread) {
    if (thread >= kPushers) {
      return ReadUntil(store_, "sum", 1 + kPushers * kPushes);
    }
    const Tensor one = Full(shape, 1);
    for (int i = 0; i < kPushes; ++i) EXPECT_OK(store_.Push("sum", one));
  });
  // A store may keep the memory that a push arrived in.
  RunConcurrently(1 + kReaders, [&](int thread) {
    if (thread > 0) return ReadUntil(store_, "w", 1 + kPushes);
    for (int i = 1; i <= kPushes; ++i) {
      EXPECT_OK(store_.Push("w", Full(shape, i)));
    }
  });
}

// Each push has one revision, and makes one version.
TEST_P(ConcurrencyContractTest, WhatIsDecidedUpToTheToldRevisionIsThere) {
  constexpr uint64_t kPushers = 3;
  constexpr uint64_t kPushes = 50;
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({4}, 0)));
  const uint64_t before = store_.Describe()->revision();

  RunConcurrently(kPushers + 1, [&](int thread) {
    for (uint64_t i = 0; thread > 0 && i < kPushes; ++i) {
      EXPECT_OK(store_.Push("w", Full({4}, 1)));
    }
    uint64_t told = before;
    while (thread == 0 && told < before + kPushers * kPushes) {
      const uint64_t revision = store_.Describe()->revision();
      ASSERT_GE(revision, told);
      told = revision;
      ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
      ASSERT_GE(value.version, 1 + told - before);
    }
  });
}

TEST_P(ConcurrencyContractTest, ValuesHeldByReadersStayAsTheyWere) {
  const Shape shape({64, 1024});
  for (const char* rule : {"assign", "accumulate"}) {
    SCOPED_TRACE(rule);
    ASSERT_OK(store_.SetRule(rule));
    ASSERT_OK(store_.Init(rule, Full(shape, 0)));
    std::vector<Value> held;

    for (int i = 1; i <= 8; ++i) {
      ASSERT_OK_AND_ASSIGN(held.emplace_back(), store_.Pull(rule));
      const int pushed = rule == std::string_view("assign") ? i : 1;
      ASSERT_OK(store_.Push(rule, Full(shape, pushed)));
    }

    for (const Value& value : held) {
      EXPECT_THAT(value.tensor,
                  IsFilledWith(static_cast<double>(value.version - 1)));
    }
  }
}

TEST_P(ConcurrencyContractTest, NoPushIsLost) {
  constexpr int kThreads = 8;
  constexpr int kPushes = 25;
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({33}, 0)));

  RunConcurrently(kThreads, [&](int thread) {
    const Tensor contribution = Full({33}, thread + 1);
    for (int i = 0; i < kPushes; ++i) {
      EXPECT_OK(store_.Push("w", contribution));
    }
  });

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(value.version, 1 + kThreads * kPushes);
  EXPECT_THAT(value.tensor, IsFilledWith(36 * kPushes));
}

TEST_P(ConcurrencyContractTest, EveryPushProducesAVersionOfItsOwn) {
  constexpr int kThreads = 4;
  constexpr int kPushes = 25;
  ASSERT_OK(store_.Init("w", Full({8}, 0)));
  std::vector<Version> versions(kThreads * kPushes);

  RunConcurrently(kThreads, [&](int thread) {
    for (int i = 0; i < kPushes; ++i) {
      ASSERT_OK_AND_ASSIGN(const PushResult result,
                           store_.Push("w", Full({8}, thread)));
      versions[thread * kPushes + i] = result.version;
    }
  });

  std::vector<Version> expected(kThreads * kPushes);
  std::iota(expected.begin(), expected.end(), 2);
  std::sort(versions.begin(), versions.end());
  EXPECT_EQ(versions, expected);
}

TEST_P(ConcurrencyContractTest, CallsOverManyKeysDoNotDeadlock) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.InitMany({{"a", Full({9}, 0)}, {"b", Full({9}, 0)}}));
  const PushEntry a = {.key = "a", .tensor = Full({9}, 1)};
  const PushEntry b = {.key = "b", .tensor = Full({9}, 1)};

  RunConcurrently(4, [&](int thread) {
    for (int i = 0; i < 25; ++i) {
      EXPECT_OK(thread % 2 == 0 ? store_.PushPullMany({a, b})
                                : store_.PushPullMany({b, a}));
    }
  });

  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(100))));
  EXPECT_THAT(store_.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(100))));
}

TEST_P(ConcurrencyContractTest, KeysComeAndGoWhileOthersUseThem) {
  constexpr int kThreads = 4;
  const auto is_ok_or_not_found =
      AnyOf(IsOk(), StatusIs(StatusCode::kNotFound));

  RunConcurrently(kThreads, [&](int) {
    for (int i = 0; i < 25; ++i) {
      EXPECT_OK(store_.Init("w", Full({16}, 1), OnExisting::kKeep));
      EXPECT_THAT(store_.Push("w", Full({16}, 1)).status(), is_ok_or_not_found);
      EXPECT_THAT(store_.Pull("w").status(), is_ok_or_not_found);
      EXPECT_OK(store_.Delete({"w"}, /*allow_missing=*/true));
    }
  });

  EXPECT_EQ(store_.Describe()->num_keys(), 0);
}

TEST_P(ConcurrencyContractTest, RulesChangeWhilePushesRun) {
  ASSERT_OK(store_.SetRule("sgd(learning_rate=1)"));
  ASSERT_OK(store_.Init("w", Full({512}, 0)));

  RunConcurrently(3, [&](int thread) {
    for (int i = 0; i < 25; ++i) {
      if (thread == 0) {
        EXPECT_OK(store_.SetHyperparameters({{"momentum", 0.5 * (i % 2)}}));
      } else {
        EXPECT_OK(store_.Push("w", Full({512}, 1)));
      }
    }
  });

  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_EQ(value.version, 51);
  EXPECT_TRUE(IsUniform(value.tensor));
}

}  // namespace
}  // namespace tensorkv::testing
