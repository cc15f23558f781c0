// Encoded contributions, with every verb and mode: what the store makes of them
// is what it makes of the elements that they decode to.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "client/compression/compressor.h"
#include "contract/reason.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace encoding_contract {

using ::absl::StatusCode;
using ::testing::HasSubstr;

constexpr int kSize = 1500;

Compressor CompressorOf(const char* compression) {
  return Compressor(
      {.rules = {{"", *Compression::Parse(compression)}}, .min_bytes = 0});
}

std::vector<double> Waves(double phase) {
  std::vector<double> elements(kSize);
  for (int i = 0; i < kSize; ++i) elements[i] = std::sin(i * 0.7 + phase);
  return elements;
}

PushEntry Encoded(const std::string& key, const Tensor& tensor,
                  const char* compression) {
  return CompressorOf(compression)
      .Compress(0, {{.key = key, .tensor = tensor}})
      .value()[0];
}

// A payload of these bytes.
PushEntry Raw(const std::string& key, Packing packing, const Shape& shape,
              const std::string& bytes, DType dtype = DType::kF32) {
  return {.key = key,
          .tensor = *Tensor::CopyOf(
              DType::kU8, {static_cast<int64_t>(bytes.size())}, bytes.data()),
          .encoding = *Encoding::Create(packing, dtype, shape)};
}

template <typename T>
std::string BytesOfAll(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

// The issue of many small gradients: each is below the threshold, and they
// count all the same.
TEST_P(EncodingContractTest, ResidualsOfSevenWorkersAddUp) {
  const Caller sync = NewSyncNamespace(7, "accumulate(scale=2)");
  ASSERT_OK(sync.Init("w", Full({kSize}, 0)));
  std::deque<Compressor> compressors;
  for (int rank = 0; rank < 7; ++rank) {
    compressors.emplace_back(CompressionOptions{
        .rules = {{"", *Compression::Parse("2bit:0.5")}}, .min_bytes = 0});
  }
  const std::vector<std::pair<double, double>> pushes = {
      {0, 0}, {0.4, 0}, {0.1, 7}, {0.2, 7}, {0.3, 14}, {0.5, 21}};
  for (Step step = 1; step <= pushes.size(); ++step) {
    for (uint32_t rank = 0; rank < 7; ++rank) {
      const Tensor gradient = Full({kSize}, pushes[step - 1].first);
      ASSERT_OK_AND_ASSIGN(
          const auto entries,
          compressors[rank].Compress(step, {{.key = "w", .tensor = gradient}}));
      ASSERT_OK(sync.As(rank).PushMany(entries, step));
    }
    EXPECT_THAT(sync.As(0).Pull("w"),
                IsOkAndHolds(HasTensor(IsFilledWith(pushes[step - 1].second))));
  }
}

// Beside the same elements as a plain tensor, which an assign shows.
TEST_P(EncodingContractTest, EveryEncodingIsSummedAsWhatItDecodesTo) {
  for (const char* compression :
       {"2bit:0.3", "1bit:0", "sign", "topk:0.1", "randomk:0.1", "dithering:4",
        "dithering:8,natural,l2", "i8:64", "f8e4m3fn:64", "f8e5m2:64", "f16",
        "bf16", "f8e4m3fn", "f8e5m2"}) {
    const PushEntry encoded = Encoded("w", Vector(Waves(0)), compression);
    ASSERT_OK(store_.SetRule("assign"));
    ASSERT_OK(store_.Init("w", Full({kSize}, 0), OnExisting::kReplace));
    ASSERT_OK_AND_ASSIGN(const PullReply decoded,
                         store_.PushPullMany({encoded}));

    ASSERT_OK(store_.SetRule("sgd(learning_rate=0.1, momentum=0.5)"));
    for (const DType dtype :
         {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      const Tensor initial = Full({kSize}, 1, dtype);
      const Tensor plain = decoded.values[0].tensor;
      const Tensor other = Vector(Waves(1));
      ASSERT_OK(store_.Init("e", initial, OnExisting::kReplace));
      ASSERT_OK(store_.Init("p", initial, OnExisting::kReplace));
      PushEntry e = encoded;
      e.key = "e";
      for (int push = 0; push < 2; ++push) {
        ASSERT_OK(store_.PushMany({{.key = "e", .tensor = other}, e, e}));
        ASSERT_OK(store_.PushMany({{.key = "p", .tensor = other},
                                   {.key = "p", .tensor = plain},
                                   {.key = "p", .tensor = plain}}));
      }
      ASSERT_OK_AND_ASSIGN(const PullReply values,
                           store_.PullMany({{"e"}, {"p"}}));
      EXPECT_EQ(BytesOf(values.values[0].tensor),
                BytesOf(values.values[1].tensor))
          << compression << " on " << NameOf(dtype);
    }
  }
}

// With as many as a round adds up ahead, and repeated.
TEST_P(EncodingContractTest, RoundsAddUpEncodedContributions) {
  constexpr uint32_t kWorkers = 20;
  const Caller sync = NewSyncNamespace(kWorkers, "accumulate");
  ASSERT_OK(sync.Init("w", Full({kSize}, 0)));
  const PushEntry half = Encoded("w", Full({kSize}, 9), "2bit:0.5");
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    ASSERT_OK(sync.As(rank).PushMany({half}, 1));
  }
  EXPECT_THAT(sync.As(0).Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(10))));
}

constexpr int kTableRows = 9;
constexpr int kRowElements = 37;

// Encoded rows, and the same as what they decode to, which `store` tells.
struct RowsBothWays {
  PushEntry encoded;
  PushEntry plain;
};

RowsBothWays RowsOf(const Caller& store, const std::vector<double>& ids,
                    double phase, const char* compression) {
  const auto num_rows = static_cast<int64_t>(ids.size());
  std::vector<double> elements = Waves(phase);
  elements.resize(ids.size() * kRowElements);
  const Tensor rows = TensorOf({num_rows, kRowElements}, elements);
  RowsBothWays both = {.encoded = Encoded("r", rows, compression)};
  EXPECT_OK(store.SetRule("assign", "decoded"));
  EXPECT_OK(store.Init("decoded", Full(rows.shape(), 0), OnExisting::kReplace));
  both.plain = both.encoded;
  both.plain.key = "decoded";
  both.plain.tensor = store.PushPullMany({both.plain}).value().values[0].tensor;
  both.plain.encoding = nullptr;
  both.plain.key = "p";
  both.encoded.rows = both.plain.rows =
      *RowIds::Create(Vector(ids, DType::kI64));
  return both;
}

constexpr const char* kRowCompressions[] = {
    "2bit:0.3",    "1bit:0",      "dithering:4", "i8:64",
    "f8e4m3fn:37", "f8e5m2:1000", "f16",         "bf16"};

// Repeated and unsorted, with runs of rows that follow one another.
TEST_P(EncodingContractTest, EncodedRowsAreSummedAsWhatTheyDecodeTo) {
  for (const char* compression : kRowCompressions) {
    const RowsBothWays first =
        RowsOf(store_, {7, 2, 3, 4, 2, 0}, 0, compression);
    const RowsBothWays second = RowsOf(store_, {4, 5, 8}, 1, compression);
    for (const DType dtype :
         {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      const Tensor table = Full({kTableRows, kRowElements}, 1, dtype);
      ASSERT_OK(
          store_.InitMany({{"r", table}, {"p", table}}, OnExisting::kReplace));
      ASSERT_OK(store_.SetRule("adam(learning_rate=0.1)", "r"));
      ASSERT_OK(store_.SetRule("adam(learning_rate=0.1)", "p"));
      for (int push = 0; push < 2; ++push) {
        PushEntry encoded = second.encoded;
        PushEntry plain = second.plain;
        encoded.update_all_rows = plain.update_all_rows = push == 1;
        ASSERT_OK(store_.PushRows({first.encoded, encoded}));
        ASSERT_OK(store_.PushRows({first.plain, plain}));
      }
      ASSERT_OK_AND_ASSIGN(const PullReply values,
                           store_.PullMany({{"r"}, {"p"}}));
      EXPECT_EQ(BytesOf(values.values[0].tensor),
                BytesOf(values.values[1].tensor))
          << compression << " on " << NameOf(dtype);
    }
  }
}

// With as many as a round adds up ahead; some workers bring tensors.
TEST_P(EncodingContractTest, RoundsSumEncodedRowsInRankOrder) {
  constexpr uint32_t kWorkers = 12;
  const Tensor table = Full({kTableRows, kRowElements}, 0);
  std::vector<double> elements = Waves(2);
  elements.resize(kTableRows * kRowElements);
  const Tensor dense = TensorOf({kTableRows, kRowElements}, elements);
  for (const bool has_tensors : {false, true}) {
    const char* const rule = has_tensors ? "accumulate" : "sgd(momentum=0.5)";
    const Caller sync = NewNamespace(rule, {.mode = Mode::kSync,
                                            .num_workers = kWorkers,
                                            .rule = *ParseRuleSpec(rule)});
    ASSERT_OK(sync.InitMany({{"r", table}, {"p", table}}));
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      const Caller worker = sync.As(rank);
      if (has_tensors && rank % 3 == 1) {
        ASSERT_OK(worker.PushMany(
            {Encoded("r", dense, "f16"), Encoded("p", dense, "f16")}, 1));
        continue;
      }
      const RowsBothWays rows =
          RowsOf(store_, {static_cast<double>(rank % kTableRows), 3, 4, 3},
                 rank, kRowCompressions[rank % std::size(kRowCompressions)]);
      ASSERT_OK(worker.PushRows({rows.encoded, rows.plain}, 1));
    }
    ASSERT_OK_AND_ASSIGN(const PullReply values,
                         sync.As(0).PullMany({{"r"}, {"p"}}));
    EXPECT_EQ(BytesOf(values.values[0].tensor),
              BytesOf(values.values[1].tensor))
        << has_tensors;
  }
}

TEST_P(EncodingContractTest, BoundedPushesOfEncodedRowsAreAppliedAtOnce) {
  const Caller bounded = NewNamespace("b", {.mode = Mode::kBounded,
                                            .num_workers = 1,
                                            .rule = {.name = "accumulate"},
                                            .staleness = 1});
  const Tensor table = Full({kTableRows, kRowElements}, 0);
  ASSERT_OK(bounded.InitMany({{"r", table}, {"p", table}}));
  const RowsBothWays rows = RowsOf(store_, {8, 1, 8}, 0, "i8:64");
  ASSERT_OK(bounded.As(0).PushRows({rows.encoded, rows.plain}, 1));
  ASSERT_OK_AND_ASSIGN(const PullReply values,
                       bounded.PullMany({{"r"}, {"p"}}));
  EXPECT_EQ(BytesOf(values.values[0].tensor), BytesOf(values.values[1].tensor));
}

TEST_P(EncodingContractTest, RowsTakeNoEncodingThatLeavesElementsOut) {
  ASSERT_OK(store_.Init("w", Full({3, 8}, 1)));
  const auto expect_refused = [&](PushEntry entry, const char* why) {
    entry.rows = *RowIds::Create(Vector({1}, DType::kI32));
    EXPECT_THAT(store_.PushRows({entry}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  const Packing two_bit = {.kind = PackingKind::kTwoBit, .scale = 1};
  expect_refused(Raw("w", {.kind = PackingKind::kTopK}, {1, 8}, ""), "top_k");
  expect_refused(Raw("w", {.kind = PackingKind::kRandomK, .block_size = 8},
                     {1, 8}, "ABCD"),
                 "random_k");
  expect_refused(Raw("w", two_bit, {8}, "AB"), "expected f32[1,8], got f32[8]");
  expect_refused(Raw("w", two_bit, {1, 8}, "A"), "2 bytes");
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

// A push of 4 MiB and more may go as a stream.
TEST_P(EncodingContractTest, LargePayloadsArrive) {
  constexpr int64_t kLarge = 5 << 20;
  ASSERT_OK(store_.Init("w", Full({kLarge}, 0)));
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.PushMany({Encoded("w", Full({kLarge}, 0.9), "2bit:0.5")}));
  ASSERT_OK(store_.PushMany({Encoded("w", Full({kLarge}, 127), "i8:4096")}));
  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  EXPECT_TRUE(IsFilled(value.tensor, 127.5));
}

TEST_P(EncodingContractTest, ZerosAreATopKOfNone) {
  ASSERT_OK(store_.Init("w", Full({4}, 3)));
  ASSERT_OK(store_.PushMany(
      {Raw("w", {.kind = PackingKind::kTopK}, {4}, std::string())}));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(0))));
}

// All finite numbers of a dtype of at most 16 bits, in order, with their bits.
using Numbers = std::vector<std::pair<double, uint32_t>>;

Numbers NumbersOf(DType dtype) {
  const size_t size = SizeOf(dtype);
  const uint32_t num_codes = uint32_t{1} << (8 * size);
  Tensor codes = *Tensor::Allocate(dtype, {num_codes});
  for (uint32_t code = 0; code < num_codes; ++code) {
    std::memcpy(codes.mutable_data() + code * size, &code, size);
  }
  const std::vector<double> elements = ElementsOf(codes);
  Numbers numbers;
  for (uint32_t code = 0; code < num_codes; ++code) {
    if (std::isfinite(elements[code]))
      numbers.push_back({elements[code], code});
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The number next to x, which is between two of them; of two the even one.
double Nearest(const Numbers& numbers, double x) {
  const auto above = std::lower_bound(numbers.begin(), numbers.end(),
                                      std::pair<double, uint32_t>(x, 0));
  const auto below = std::prev(above);
  const double to_above = above->first - x;
  const double to_below = x - below->first;
  if (to_above != to_below) {
    return to_above < to_below ? above->first : below->first;
  }
  return above->second % 2 == 0 ? above->first : below->first;
}

TEST_P(EncodingContractTest, PullsConvertToTheNearestNumber) {
  std::vector<double> elements = Waves(0);
  for (int i = 0; i < kSize; ++i) elements[i] = std::ldexp(elements[i], i % 16);
  for (double& element : elements) element /= 256;  // some are denormal then
  const Tensor initial = Vector(elements);
  elements = ElementsOf(initial);
  ASSERT_OK(store_.Init("w", initial));
  ASSERT_OK(store_.Init("none", Full({3, 0}, 0)));
  ASSERT_OK(store_.Init("half", Full({2}, 0.5, DType::kF16)));
  for (const auto& [dtype, error] : {std::pair(DType::kF16, 11),
                                     {DType::kBF16, 8},
                                     {DType::kF8E4M3FN, 4},
                                     {DType::kF8E5M2, 3}}) {
    ASSERT_OK_AND_ASSIGN(const PullReply reply,
                         store_.PullAs(dtype, {{"w"}, {"none"}, {"half"}}));
    const Tensor& tensor = reply.values[0].tensor;
    EXPECT_EQ(reply.values[0].version, 1);
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.shape(), initial.shape());
    const std::vector<double> pulled = ElementsOf(tensor);
    const Numbers numbers = NumbersOf(dtype);
    for (int i = 0; i < kSize; ++i) {
      const double x = elements[i];
      ASSERT_EQ(pulled[i], Nearest(numbers, x)) << NameOf(dtype) << " " << x;
      if (std::abs(x) < 1.0 / 64) continue;
      EXPECT_LE(std::abs(pulled[i] - x), std::ldexp(std::abs(x), -error));
    }
    EXPECT_EQ(reply.values[1].tensor.shape(), Shape({3, 0}));
    EXPECT_TRUE(IsFilled(reply.values[2].tensor, 0.5));
  }
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(HasElements(elements))));
}

TEST_P(EncodingContractTest, PullsConvertSpecialNumbersAsAnAssignDoes) {
  const std::vector<double> specials = {NAN, INFINITY, -INFINITY, -0.0,  448,
                                        464, 465,      65519,     -65520};
  const auto text = [](const Tensor& tensor) {
    return absl::StrJoin(ElementsOf(tensor), " ");
  };
  struct Case {
    DType dtype;
    std::string expected;
  };
  for (const Case& to : {
           Case{DType::kF32, "nan inf -inf -0 448 464 465 65519 -65520"},
           Case{DType::kF16, "nan inf -inf -0 448 464 465 65504 -inf"},
           Case{DType::kBF16, "nan inf -inf -0 448 464 464 65536 -65536"},
           Case{DType::kF8E4M3FN, "nan nan nan -0 448 448 nan nan nan"},
           Case{DType::kF8E5M2, "nan inf -inf -0 448 448 448 inf -inf"},
       }) {
    for (const DType from : {DType::kF32, DType::kF64}) {
      const Tensor stored = Vector(specials, from);
      ASSERT_OK(store_.Init("w", stored, OnExisting::kReplace));
      ASSERT_OK_AND_ASSIGN(const PullReply pulled,
                           store_.PullAs(to.dtype, {{"w"}}));
      EXPECT_EQ(text(pulled.values[0].tensor), to.expected)
          << NameOf(from) << " as " << NameOf(to.dtype);

      const Tensor zeros = Full({std::ssize(specials)}, 0, to.dtype);
      ASSERT_OK(store_.Init("assigned", zeros, OnExisting::kReplace));
      ASSERT_OK(store_.Push("assigned", stored));
      EXPECT_EQ(text(store_.Pull("assigned")->tensor), to.expected)
          << NameOf(from) << " as " << NameOf(to.dtype);
    }
  }
}

TEST_P(EncodingContractTest, NumbersOfF64AreRoundedToF32First) {
  // More than the middle of two numbers of f16, but not in f32.
  ASSERT_OK(store_.Init("w", Vector({2049.0000001, 1e300}, DType::kF64)));
  EXPECT_THAT(store_.PullAs(DType::kF16, {{"w"}})->values[0].tensor,
              HasElements({2048, INFINITY}));
  EXPECT_THAT(store_.PullAs(DType::kF64, {{"w"}})->values[0].tensor,
              HasElements({2049.0000001, 1e300}));
}

TEST_P(EncodingContractTest, LargePullsAreConverted) {
  constexpr int64_t kLarge = 3 << 20;
  ASSERT_OK(store_.Init("w", Full({kLarge}, 1.0 / 3)));
  for (const DType dtype : {DType::kF16, DType::kF8E5M2}) {
    ASSERT_OK_AND_ASSIGN(const PullReply reply, store_.PullAs(dtype, {{"w"}}));
    EXPECT_EQ(reply.values[0].tensor.size_bytes(), kLarge * SizeOf(dtype));
    EXPECT_TRUE(
        IsFilled(reply.values[0].tensor, Nearest(NumbersOf(dtype), 1.0f / 3)));
  }
}

TEST_P(EncodingContractTest, PushPullsConvertAsPullsDo) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.InitMany(
      {{"w", Vector(Waves(0))}, {"half", Full({2}, 0.5, DType::kF16)}}));
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3FN}) {
    ASSERT_OK_AND_ASSIGN(
        const PullReply pushed,
        store_.PushPullAs(dtype, {{.key = "w", .tensor = Vector(Waves(1))},
                                  {.key = "half", .skip = true}}));
    ASSERT_OK_AND_ASSIGN(const PullReply pulled,
                         store_.PullAs(dtype, {{"w"}, {"half"}}));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pushed.values[i].version, pulled.values[i].version);
      EXPECT_EQ(pushed.values[i].tensor.dtype(), dtype);
      EXPECT_EQ(BytesOf(pushed.values[i].tensor),
                BytesOf(pulled.values[i].tensor));
    }
  }
}

TEST_P(EncodingContractTest, LargePushPullsOfRoundsAreConverted) {
  constexpr int64_t kLarge = 3 << 20;
  const Caller sync = NewSyncNamespace(2);
  ASSERT_OK(sync.Init("w", Full({kLarge}, 0)));
  ASSERT_OK(sync.As(0).Push("w", Full({kLarge}, 1), 1));

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      sync.As(1).PushPullAs(DType::kF16,
                            {{.key = "w", .tensor = Full({kLarge}, 2)}}, 1));

  EXPECT_EQ(reply.values[0].tensor.size_bytes(), 2 * kLarge);
  EXPECT_TRUE(IsFilled(reply.values[0].tensor, 3));
}

TEST_P(EncodingContractTest, RepeatsOfPushPullsAreConvertedToo) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({2}, 1)));
  PushPullRequest request;
  request.call_id = CallId{"a client", 1};
  request.entries.push_back({.key = "w", .tensor = Full({2}, 1)});
  request.dtype = DType::kF16;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const PullReply reply,
                         connection().Call(request, CallOptions()));
    EXPECT_EQ(reply.values[0].version, 2);
    EXPECT_EQ(reply.values[0].tensor.dtype(), DType::kF16);
    EXPECT_TRUE(IsFilled(reply.values[0].tensor, 2));
  }
}

TEST_P(EncodingContractTest, WhatCannotBeConvertedIsNotPushed) {
  ASSERT_OK(
      store_.InitMany({{"w", Full({8}, 1)}, {"n", Full({8}, 1, DType::kI32)}}));
  const auto expect_refused = [&](DType dtype, const char* why) {
    EXPECT_THAT(store_.PushPullAs(
                    dtype, {{.key = "w", .tensor = Full({8}, 2)},
                            {.key = "n", .tensor = Full({8}, 2, DType::kI32)}}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  expect_refused(DType::kF16, "\"n\"");
  expect_refused(DType::kI8, "expected a float, got i8");
  expect_refused(DType::kF64, "8 bytes or more");
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

TEST_P(EncodingContractTest, WhatIsNoValueOfAFloatIsNotConverted) {
  ASSERT_OK(
      store_.InitMany({{"w", Full({8}, 1)}, {"n", Full({8}, 1, DType::kI32)}}));
  const auto expect_refused = [](const absl::Status& status, const char* why) {
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  expect_refused(store_.PullAs(DType::kF16, {{"w"}, {"n"}}).status(), "i32");
  expect_refused(store_.PullAs(DType::kI8, {{"w"}}).status(), "i8");
  expect_refused(store_.PullAs(DType::kF64, {{"w"}}).status(), "8 bytes");
}

// The first entry of a key may stand for any tensor; more must bring bytes.
TEST_P(EncodingContractTest, RepeatsOfAKeyDoNotExpandWithoutBound) {
  ASSERT_OK(store_.Init("w", Full({100'000}, 0)));
  const PushEntry zeros = Raw("w", {.kind = PackingKind::kTopK}, {100'000}, "");
  EXPECT_OK(store_.PushMany({zeros}));
  EXPECT_THAT(store_.PushMany({zeros, zeros}),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("400000")));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(2)));
}

TEST_P(EncodingContractTest, BadPayloadsAreRefusedAndChangeNothing) {
  ASSERT_OK(store_.Init("w", Full({8}, 1)));
  ASSERT_OK(store_.Init("n", Full({8}, 1, DType::kI32)));
  const Packing top_k = {.kind = PackingKind::kTopK, .count = 2};
  const Packing blocks = {
      .kind = PackingKind::kBlocks, .element_dtype = 7, .block_size = 4};
  const auto indices = [](uint32_t first, uint32_t second) {
    return BytesOfAll<uint32_t>({first, second}) + std::string(8, '\0');
  };
  const auto scales = [](float first, float second) {
    return BytesOfAll<float>({first, second}) + std::string(8, '\1');
  };
  struct Case {
    PushEntry entry;
    std::string message;
  };
  const std::vector<Case> cases = {
      {Raw("w", top_k, {8}, indices(3, 3)), "index 1 of top-k"},
      {Raw("w", top_k, {8}, indices(3, 2)), "index 1 of top-k"},
      {Raw("w", top_k, {8}, indices(3, 8)), "to below 8, rising, got 8"},
      {Raw("w", blocks, {8}, scales(1, 0)), "positive number, got 0"},
      {Raw("w", blocks, {8}, scales(-1, 1)), "positive number, got -1"},
      {Raw("w", blocks, {8}, scales(INFINITY, 1)), "got inf"},
      {Raw("w", blocks, {8}, scales(1, NAN)), "got nan"},
      {Raw("w", {.kind = PackingKind::kTopK, .count = 1}, {8},
           BytesOfAll<uint32_t>({1, 7, 0})),
       "byte 4, which pads the payload: expected 0, got 7"},
      {Raw("w",
           {.kind = PackingKind::kBlocks, .element_dtype = 7, .block_size = 8},
           {8}, scales(1, 0x1p-149f)),
       "byte 4, which pads the payload: expected 0, got 1"}};
  for (const Case& each : cases) {
    const absl::Status status = store_.PushMany({each.entry}).status();
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument,
                                 HasSubstr(each.message)));
    EXPECT_EQ(ReasonOf(status), Reason::kEncodingMalformed);
  }
  const Packing two_bit = {.kind = PackingKind::kTwoBit, .scale = 1};
  EXPECT_THAT(store_.PushMany({Raw("w", two_bit, {9}, "ABC")}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("f32[9]")));
  EXPECT_THAT(store_.PushMany({Raw("n", two_bit, {8}, "AB")}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("i32[8]")));
  EXPECT_THAT(store_.PushMany({Raw("w", two_bit, {8}, "A")}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("2 bytes")));
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(1)));
}

}  // namespace encoding_contract
}  // namespace tensorkv::testing
