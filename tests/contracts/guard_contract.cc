// The gradient guard: what happens to contributions that are not finite, or
// whose norm is above the bound, in every mode and encoding.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compression/compressor.h"
#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace guard_contract {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

NamespaceConfig Guarded(const GradientGuard& guard) {
  return {.rule = {.name = "accumulate"}, .gradient_guard = guard};
}

NamespaceConfig GuardedSync(const GradientGuard& guard) {
  NamespaceConfig config = Guarded(guard);
  config.mode = Mode::kSync;
  config.num_workers = 2;
  return config;
}

// What the guard has found in the contributions of a rank; of callers without
// one, if there is none.
struct GuardCounts {
  std::optional<uint32_t> rank;
  uint64_t not_finite = 0;
  uint64_t too_large = 0;

  friend bool operator==(const GuardCounts&, const GuardCounts&) = default;
};

std::vector<GuardCounts> CountsOf(const Caller& caller) {
  std::vector<GuardCounts> counts;
  const NamespaceStatus status = *caller.Describe();
  for (const v1::GuardCounts& each : status.guard_counts()) {
    counts.push_back(
        {.not_finite = each.not_finite(), .too_large = each.too_large()});
    if (each.has_rank()) counts.back().rank = each.rank();
  }
  return counts;
}

double Norm(const std::vector<double>& elements) {
  long double sum = 0;
  for (const double each : elements)
    sum += static_cast<long double>(each) * each;
  return static_cast<double>(std::sqrt(sum));
}

PushEntry Encoded(const std::vector<double>& elements,
                  const std::string& compression) {
  Compressor compressor(
      {.rules = {{"", *Compression::Parse(compression)}}, .min_bytes = 0});
  return compressor.Compress(0, {{.key = "w", .tensor = Vector(elements)}})
      .value()[0];
}

// A top-k of 100 elements that has one.
PushEntry TopKOf(float element) {
  std::string payload(12, '\0');  // index 0, and padding
  std::memcpy(payload.data() + 8, &element, sizeof(element));
  return {.key = "w",
          .tensor = *Tensor::CopyOf(DType::kU8, {12}, payload.data()),
          .encoding = *Encoding::Create(
              {.kind = PackingKind::kTopK, .count = 1}, DType::kF32, {100})};
}

// 100 elements of which one is `odd`, as the wire may bring them.
std::vector<PushEntry> EntriesWith(double odd) {
  std::vector<double> elements(100, 0.25);
  elements[67] = odd;
  std::vector<PushEntry> entries;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16,
                            DType::kF8E4M3FN, DType::kF8E5M2}) {
    entries.push_back({.key = "w", .tensor = Vector(elements, dtype)});
  }
  entries.push_back(TopKOf(static_cast<float>(odd)));
  return entries;
}

TEST_P(NumbersContractTest, GuardIsOffByDefault) {
  ASSERT_OK(store_.Init("w", Full({100}, 0)));

  for (const PushEntry& entry : EntriesWith(kNan)) {
    EXPECT_OK(store_.PushMany({entry}));
  }
  EXPECT_THAT(CountsOf(store_), IsEmpty());
}

TEST_P(NumbersContractTest, GuardTreatsNonFiniteContributionsByItsPolicy) {
  for (const double odd : {kInf, -kInf, kNan}) {
    const std::vector<PushEntry> entries = EntriesWith(odd);
    const auto run = [&](OnNonFinite policy) {
      Caller caller = store_.In("n");
      caller.Drop().IgnoreError();  // there may be none
      EXPECT_OK(caller.Create(Guarded({.on_non_finite = policy})));
      EXPECT_OK(caller.Init("w", Full({100}, 1)));
      for (const PushEntry& entry : entries) {
        const absl::Status status = caller.PushMany({entry}).status();
        EXPECT_EQ(ReasonOf(status), policy == OnNonFinite::kRefuse
                                        ? Reason::kContributionNotFinite
                                        : Reason::kUnspecified);
      }
      EXPECT_THAT(CountsOf(caller),
                  ElementsAre(GuardCounts{.not_finite = entries.size()}));
      return caller.Pull("w").value();
    };
    EXPECT_THAT(run(OnNonFinite::kCount), HasVersion(1 + entries.size()));
    for (const OnNonFinite policy :
         {OnNonFinite::kSkip, OnNonFinite::kRefuse}) {
      EXPECT_THAT(run(policy),
                  AllOf(HasVersion(1), HasTensor(IsFilledWith(1))));
    }
  }
}

TEST_P(NumbersContractTest, GuardRefusesWholeCallsAndNamesKeyAndRank) {
  const Caller caller =
      NewNamespace("n", Guarded({.on_non_finite = OnNonFinite::kRefuse,
                                 .max_norm = 2,
                                 .on_large_norm = OnLargeNorm::kRefuse}));
  ASSERT_OK(caller.InitMany({{"a", Full({4}, 0)}, {"b", Full({4}, 0)}}));
  ASSERT_OK_AND_ASSIGN(const Caller member, caller.Join("member"));
  const PushEntry good = {.key = "a", .tensor = Full({4}, 1)};

  EXPECT_THAT(
      member.PushMany({good, {.key = "b", .tensor = Full({4}, kNan)}}),
      AllOf(StatusIs(StatusCode::kInvalidArgument, HasSubstr("worker 0")),
            HasReason(Reason::kContributionNotFinite,
                      {{"key", "b"}, {"rank", "0"}})));
  EXPECT_THAT(member.PushMany({good, {.key = "b", .tensor = Full({4}, 1.5)}}),
              AllOf(StatusIs(StatusCode::kInvalidArgument, HasSubstr("got 3")),
                    HasReason(Reason::kContributionTooLarge,
                              {{"key", "b"}, {"rank", "0"}, {"limit", "2"}})));
  EXPECT_THAT(
      caller.PushPullMany({{.key = "a", .tensor = Full({4}, 1.5)},
                           {.key = "b", .tensor = Full({4}, kInf)}}),
      HasReason(Reason::kContributionTooLarge, {{"key", "a"}, {"limit", "2"}}));

  EXPECT_THAT(caller.Pull("a"), IsOkAndHolds(HasVersion(1)));
  EXPECT_THAT(CountsOf(caller),
              ElementsAre(GuardCounts{.not_finite = 1, .too_large = 1},
                          GuardCounts{0u, /*not_finite=*/1, /*too_large=*/1}));
  EXPECT_OK(caller.PushMany({good}));  // its norm is the bound
}

// Anybody may call himself any rank there.
TEST_P(NumbersContractTest, GuardCountsNoRanksThatHaveNotJoined) {
  const Caller caller =
      NewNamespace("n", Guarded({.on_non_finite = OnNonFinite::kCount}));
  ASSERT_OK(caller.Init("w", Full({4}, 0)));
  for (const uint32_t rank : {3, 4}) {
    ASSERT_OK(caller.As(rank).Push("w", Full({4}, kNan)));
  }
  EXPECT_THAT(CountsOf(caller), ElementsAre(GuardCounts{.not_finite = 2}));
}

// As they did the first time.
TEST_P(NumbersContractTest, GuardTakesRepeatsForTheNormOfACallAlone) {
  const Caller sync = NewNamespace("n", GuardedSync({.max_call_norm = 5}));
  ASSERT_OK(sync.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));
  ASSERT_OK_AND_ASSIGN(const Caller first, sync.Join("first"));
  ASSERT_OK_AND_ASSIGN(const Caller second, sync.Join("second"));
  const PushEntry a = {.key = "a", .tensor = Full({1}, 30)};
  const PushEntry b = {.key = "b", .tensor = Full({1}, 40)};

  ASSERT_OK(first.PushMany({a}, 1));
  ASSERT_OK(first.PushMany({a, b}, 1));
  ASSERT_OK(second.PushMany(
      {{.key = "a", .skip = true}, {.key = "b", .skip = true}}, 1));

  EXPECT_THAT(first.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(5))));
  EXPECT_THAT(first.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(4))));
  EXPECT_THAT(CountsOf(sync), ElementsAre(GuardCounts{0u, 0, 2}));
}

TEST_P(NumbersContractTest, GuardClipsNormsWhoseSquaresOverflow) {
  int index = 0;
  for (const GradientGuard& guard :
       {GradientGuard{.max_norm = 5}, GradientGuard{.max_call_norm = 5},
        GradientGuard{.max_norm = 1e200, .max_call_norm = 5}}) {
    const Caller caller =
        NewNamespace(absl::StrCat("n", index++), Guarded(guard));
    ASSERT_OK(caller.Init("w", Full({2}, 0, DType::kF64)));
    ASSERT_OK(caller.Push("w", Vector({3e250, -4e250}, DType::kF64)));
    const std::vector<double> clipped = ElementsOf(caller.Pull("w")->tensor);
    EXPECT_THAT(clipped,
                ElementsAre(DoubleNear(3, 1e-14), DoubleNear(-4, 1e-14)));
  }
}

TEST_P(NumbersContractTest, GuardSkipsLikeAnEntryThatSkipsInRounds) {
  const Caller sync =
      NewNamespace("n", GuardedSync({.on_non_finite = OnNonFinite::kSkip}));
  ASSERT_OK(sync.Init("w", Full({4}, 0)));
  ASSERT_OK_AND_ASSIGN(const Caller first, sync.Join("first"));
  ASSERT_OK_AND_ASSIGN(const Caller second, sync.Join("second"));

  ASSERT_OK(first.Push("w", Full({4}, kInf), 1));
  EXPECT_THAT(first.Push("w", Full({4}, kInf), 1),
              IsOkAndHolds(::testing::Field(&PushResult::repeated, true)));
  ASSERT_OK(second.Push("w", Full({4}, 3), 1));

  EXPECT_THAT(first.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(2), HasTensor(IsFilledWith(3)))));
  EXPECT_THAT(CountsOf(sync), ElementsAre(GuardCounts{0u, 1, 0}));
}

TEST_P(NumbersContractTest, GuardRefusesAndTheRoundWaitsForABetterPush) {
  const Caller sync =
      NewNamespace("n", GuardedSync({.on_non_finite = OnNonFinite::kRefuse}));
  ASSERT_OK(sync.Init("w", Full({4}, 0)));
  ASSERT_OK_AND_ASSIGN(const Caller first, sync.Join("first"));
  ASSERT_OK_AND_ASSIGN(const Caller second, sync.Join("second"));
  ASSERT_OK(second.Push("w", Full({4}, 3), 1));

  EXPECT_THAT(first.Push("w", Full({4}, kNan), 1),
              HasReason(Reason::kContributionNotFinite));
  ASSERT_OK(first.Push("w", Full({4}, 1), 1));
  EXPECT_THAT(second.Push("w", Full({4}, kNan), 1),
              IsOkAndHolds(::testing::Field(&PushResult::repeated, true)));

  EXPECT_THAT(first.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(2), HasTensor(IsFilledWith(4)))));
  EXPECT_THAT(CountsOf(sync), ElementsAre(GuardCounts{0u, 1, 0}));
}

// What is clipped has the bound for its norm, and the direction that it had.
TEST_P(NumbersContractTest, GuardClipsEveryDTypeAndEncoding) {
  constexpr double kBound = 2;
  const Caller caller = NewNamespace("n", Guarded({.max_norm = kBound}));
  std::vector<double> waves(3000);
  for (size_t i = 0; i < waves.size(); ++i) waves[i] = std::sin(i * 0.7);
  struct Case {
    PushEntry entry;
    double tolerance;
    double step = 0;  // half of that between the smallest numbers
  };
  std::vector<Case> cases;
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::kF32, 1e-6}, std::pair{DType::kF64, 1e-15},
        std::pair{DType::kF16, 1e-3}, std::pair{DType::kBF16, 1e-2}}) {
    cases.push_back({{.key = "w", .tensor = Vector(waves, dtype)}, tolerance});
  }
  cases.push_back({{.key = "w", .tensor = Vector(waves, DType::kF8E4M3FN)},
                   0x1p-4,
                   0x1p-10});
  cases.push_back(
      {{.key = "w", .tensor = Vector(waves, DType::kF8E5M2)}, 0x1p-3, 0x1p-17});
  for (const char* compression :
       {"2bit:0.3", "1bit:0", "topk:0.1", "randomk:0.1", "dithering:4",
        "dithering:8,natural,l2", "i8:64", "f8e4m3fn:64"}) {
    cases.push_back({Encoded(waves, compression), 1e-6});
  }
  const Shape shape = {static_cast<int64_t>(waves.size())};
  for (const Case& each : cases) {
    ASSERT_OK(caller.InitMany({{"w", Full(shape, 0, DType::kF64)}},
                              OnExisting::kReplace));
    ASSERT_OK(store_.InitMany({{"w", Full(shape, 0, DType::kF64)}},
                              OnExisting::kReplace));
    ASSERT_OK(store_.PushMany({each.entry}));
    ASSERT_OK(caller.PushMany({each.entry}));
    const std::vector<double> plain = ElementsOf(store_.Pull("w")->tensor);
    const std::vector<double> clipped = ElementsOf(caller.Pull("w")->tensor);
    const double factor = kBound / Norm(plain);
    for (size_t i = 0; i < plain.size(); ++i) {
      ASSERT_NEAR(clipped[i], plain[i] * factor,
                  std::abs(plain[i] * factor) * each.tolerance + each.step)
          << "element " << i;
    }
  }
  EXPECT_THAT(CountsOf(caller),
              ElementsAre(GuardCounts{.too_large = cases.size()}));
}

// 3, 4 and 12 are as one of norm 13; each worker has a call of its own.
TEST_P(NumbersContractTest, GuardClipsTheKeysOfACallTogether) {
  const std::vector<PushEntry> entries = {
      {.key = "a", .tensor = Vector({3})},
      {.key = "b", .tensor = Vector({0, 4}, DType::kF64)},
      {.key = "n", .tensor = Full({1}, 1000, DType::kI32)},
      {.key = "c", .tensor = Vector({-12}, DType::kBF16)},
      {.key = "d", .skip = true},
      {.key = "e", .tensor = Full({1}, kNan)}};
  for (const uint32_t num_workers : {0, 2}) {
    const GradientGuard guard = {.max_call_norm = 6.5};
    const Caller caller =
        NewNamespace(absl::StrCat("n", num_workers),
                     num_workers == 0 ? Guarded(guard) : GuardedSync(guard));
    ASSERT_OK(caller.InitMany({{"a", Full({1}, 0)},
                               {"b", Full({2}, 0)},
                               {"c", Full({1}, 0)},
                               {"d", Full({1}, 0)},
                               {"e", Full({1}, 0)},
                               {"n", Full({1}, 0, DType::kI32)}}));
    for (const uint32_t rank : {0, 1}) {
      ASSERT_OK(caller.As(rank).PushMany(entries, /*step=*/1));
    }
    ASSERT_OK_AND_ASSIGN(const PullReply sums,
                         caller.PullMany({{"a"}, {"b"}, {"c"}, {"n"}}));
    EXPECT_THAT(sums.values[0], HasTensor(HasElements({3})));
    EXPECT_THAT(sums.values[1], HasTensor(HasElements({0, 4})));
    EXPECT_THAT(sums.values[2], HasTensor(HasElements({-12})));
    EXPECT_THAT(sums.values[3], HasTensor(HasElements({2000})));
    if (num_workers == 0) {
      EXPECT_THAT(CountsOf(caller), ElementsAre(GuardCounts{.too_large = 6}));
    } else {
      EXPECT_THAT(CountsOf(caller),
                  ElementsAre(GuardCounts{0u, 0, 3}, GuardCounts{1u, 0, 3}));
    }
  }
}

TEST_P(NumbersContractTest, GuardBoundsEachContributionBeforeTheCall) {
  const Caller clips =
      NewNamespace("c", Guarded({.max_norm = 4, .max_call_norm = 2.5}));
  const Caller refuses = NewNamespace(
      "r",
      Guarded({.on_large_norm = OnLargeNorm::kRefuse, .max_call_norm = 5}));
  for (const Caller& caller : {clips, refuses}) {
    ASSERT_OK(caller.InitMany({{"a", Full({1}, 0)}, {"b", Full({1}, 0)}}));
  }
  const auto push = [](const Caller& caller, double a, double b) {
    return caller
        .PushMany({{.key = "a", .tensor = Full({1}, a)},
                   {.key = "b", .tensor = Full({1}, b)}})
        .status();
  };

  ASSERT_OK(push(clips, 3, 16));  // as 3 and 4, and so as 1.5 and 2
  EXPECT_THAT(clips.Pull("a"), IsOkAndHolds(HasTensor(IsFilledWith(1.5))));
  EXPECT_THAT(clips.Pull("b"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
  EXPECT_THAT(push(refuses, 3, 4.5), HasReason(Reason::kContributionTooLarge,
                                               {{"key", "a"}, {"limit", "5"}}));
  EXPECT_OK(push(refuses, 3, 4));
}

TEST_P(NumbersContractTest, GuardLooksAtRowsAndStreams) {
  const Caller caller = NewNamespace(
      "n", Guarded({.on_non_finite = OnNonFinite::kRefuse, .max_norm = 5}));
  constexpr int64_t kLarge = 2 << 20;  // f32: may go as a stream
  ASSERT_OK(
      caller.InitMany({{"t", Full({10, 2}, 0)}, {"w", Full({kLarge}, 0)}}));
  const auto rows = [](double element) {
    return PushEntry{.key = "t",
                     .tensor = TensorOf({1, 2}, {element, 8}),
                     .rows = *RowIds::Create(Vector({7}, DType::kI64))};
  };

  EXPECT_THAT(caller.PushRows({rows(kNan)}),
              HasReason(Reason::kContributionNotFinite));
  ASSERT_OK(caller.PushRows({rows(6)}));
  std::vector<double> expected(20);
  expected[14] = 3;
  expected[15] = 4;
  EXPECT_THAT(caller.Pull("t"), IsOkAndHolds(HasTensor(HasElements(expected))));

  EXPECT_THAT(caller.Push("w", Full({kLarge}, kInf)),
              HasReason(Reason::kContributionNotFinite));
  ASSERT_OK(caller.Push("w", Full({kLarge}, 1)));
  ASSERT_OK_AND_ASSIGN(const Value value, caller.Pull("w"));
  EXPECT_TRUE(IsFilled(value.tensor, 5 / std::sqrt(double{kLarge})));
}

TEST_P(NumbersContractTest, GuardLeavesIntegersAndInitAlone) {
  const Caller caller =
      NewNamespace("n", Guarded({.on_non_finite = OnNonFinite::kRefuse,
                                 .max_norm = 1,
                                 .on_large_norm = OnLargeNorm::kRefuse}));
  ASSERT_OK(caller.InitMany(
      {{"i", Full({4}, 0, DType::kI32)}, {"w", Full({4}, kInf)}}));

  EXPECT_OK(caller.Push("i", Full({4}, 1000, DType::kI32)));
  EXPECT_THAT(CountsOf(caller), IsEmpty());
}

TEST_P(NumbersContractTest, GuardsThatMakeNoSenseAreRefused) {
  for (const GradientGuard& guard :
       {GradientGuard{.max_norm = -1}, GradientGuard{.max_norm = kInf},
        GradientGuard{.max_norm = kNan}, GradientGuard{.max_call_norm = -1},
        GradientGuard{.on_large_norm = OnLargeNorm::kRefuse}}) {
    EXPECT_THAT(store_.In("n").Create(Guarded(guard)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("norm")));
  }
}

}  // namespace guard_contract
}  // namespace tensorkv::testing
