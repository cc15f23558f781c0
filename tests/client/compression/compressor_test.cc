#include "client/compression/compressor.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compression/cast.h"
#include "client/compression/encoders.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace compressor_test {

using testing::BytesOf;
using ::testing::ElementsAre;
using testing::Full;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;
using testing::Vector;

// For all keys, however small.
CompressionOptions All(const char* compression) {
  return {.rules = {{"", *Compression::Parse(compression)}}, .min_bytes = 0};
}

std::vector<PushEntry> Entries(const Tensor& tensor) {
  return {{.key = "w", .tensor = tensor}};
}

// The bytes that go out for `elements` of "w".
std::vector<int> Pushed(Compressor& compressor,
                        const std::vector<double>& elements, Step step = 0) {
  const auto entries = compressor.Compress(step, Entries(Vector(elements)));
  std::vector<int> bytes;
  for (const char byte : BytesOf(entries.value()[0].tensor)) {
    bytes.push_back(static_cast<uint8_t>(byte));
  }
  return bytes;
}

TEST(CompressorTest, TwoBitSendsAtMostOneQuantumAPush) {
  Compressor compressor(All("2bit:0.5"));

  EXPECT_THAT(Pushed(compressor, {2, -1.2, 0.3, 0, 0.5}),
              ElementsAre(0b11100000, 0b11000000));
  EXPECT_THAT(Pushed(compressor, {0, 0, 0.3, 0, 0}),
              ElementsAre(0b11101100, 0));
  EXPECT_THAT(Pushed(compressor, {0, 0, 0, 0, -0.5}),
              ElementsAre(0b11000000, 0b10000000));
  EXPECT_THAT(Pushed(compressor, {0, 0, 0, 0, 0}), ElementsAre(0b11000000, 0));
  EXPECT_THAT(Pushed(compressor, {0, 0, 0, 0, 0}), ElementsAre(0, 0));
}

TEST(CompressorTest, OneBitIsAboveTheThresholdOrNot) {
  Compressor compressor(All("1bit:0.5"));

  // 0.5 is not above; the residuals are then {1.5, 0, 1}.
  EXPECT_THAT(Pushed(compressor, {0.5, 1, 0}), ElementsAre(0b01000000));
  EXPECT_THAT(Pushed(compressor, {0, 0, -2}), ElementsAre(0b10000000));
}

TEST(CompressorTest, RepeatOfAStepHasItsBytesAndLeavesTheResidual) {
  Compressor compressor(All("2bit:0.5"));
  EXPECT_THAT(Pushed(compressor, {0.4}, 1), ElementsAre(0));
  EXPECT_THAT(Pushed(compressor, {0.1}, 2), ElementsAre(0b11000000));

  EXPECT_THAT(Pushed(compressor, {0.4}, 1), ElementsAre(0));
  EXPECT_THAT(Pushed(compressor, {0.1}, 2), ElementsAre(0b11000000));
  EXPECT_THAT(Pushed(compressor, {0.4}, 3), ElementsAre(0));
  EXPECT_THAT(Pushed(compressor, {0.2}, 4), ElementsAre(0b11000000));
}

TEST(CompressorTest, OtherElementsOfAStepAreNoRepeat) {
  Compressor compressor(All("2bit:0.5"));
  EXPECT_THAT(Pushed(compressor, {0.4}, 5), ElementsAre(0));
  EXPECT_THAT(Pushed(compressor, {0.3}, 5), ElementsAre(0b11000000));
  // What came last is what is known.
  EXPECT_THAT(Pushed(compressor, {0.3}, 5), ElementsAre(0b11000000));
  EXPECT_THAT(Pushed(compressor, {0.4}, 5), ElementsAre(0b11000000));
}

TEST(CompressorTest, OtherShapesAndDtypesOfAStepAreNoRepeat) {
  Compressor compressor(All("2bit:0.5"));
  for (const Shape& shape : {Shape({4}), Shape({2, 2})}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      ASSERT_OK_AND_ASSIGN(
          const auto entries,
          compressor.Compress(1, Entries(Full(shape, 0, dtype))));
      EXPECT_EQ(entries[0].shape(), shape);
    }
  }
  // Eight bytes of zeros either way.
  ASSERT_OK_AND_ASSIGN(const auto singles,
                       compressor.Compress(3, Entries(Full({2}, 0))));
  ASSERT_OK_AND_ASSIGN(
      const auto halves,
      compressor.Compress(3, Entries(Full({4}, 0, DType::kBF16))));
  EXPECT_EQ(singles[0].shape(), Shape({2}));
  EXPECT_EQ(halves[0].shape(), Shape({4}));
}

TEST(CompressorTest, EntriesOfOneKeyAreRepeatedInTheirOrder) {
  Compressor compressor(All("2bit:0.5"));
  const std::vector<PushEntry> twice = {{.key = "w", .tensor = Vector({0.5})},
                                        {.key = "w", .tensor = Vector({0})}};
  for (int attempt = 0; attempt < 2; ++attempt) {
    ASSERT_OK_AND_ASSIGN(const auto entries, compressor.Compress(1, twice));
    EXPECT_EQ(BytesOf(entries[0].tensor), "\xc0");
    EXPECT_EQ(BytesOf(entries[1].tensor), std::string(1, '\0'));
  }
}

TEST(CompressorTest, MomentumComesBeforeFeedback) {
  Compressor compressor(All("f16,momentum=0.5"));
  // m = 1, p = 1 + 0.5; then m = 1.5, p = 1 + 0.75; all exact in f16.
  const auto first = compressor.Compress(0, Entries(Vector({1})));
  const auto second = compressor.Compress(0, Entries(Vector({1})));
  EXPECT_THAT(first.value()[0].tensor, testing::HasElements({1.5}));
  EXPECT_THAT(second.value()[0].tensor, testing::HasElements({1.75}));
}

TEST(CompressorTest, WithoutFeedbackNothingIsCarriedOver) {
  Compressor compressor(All("2bit:0.5,no-feedback"));
  EXPECT_THAT(Pushed(compressor, {0.4}), ElementsAre(0));
  EXPECT_THAT(Pushed(compressor, {0.4}), ElementsAre(0));
}

TEST(CompressorTest, ZerosHaveNoScale) {
  for (const char* text : {"sign", "dithering:4", "dithering:8,natural,l2"}) {
    Compressor compressor(All(text));
    ASSERT_OK_AND_ASSIGN(const auto entries,
                         compressor.Compress(0, Entries(Full({5}, 0))));
    EXPECT_EQ(entries[0].encoding->packing().kind, PackingKind::kTopK);
    EXPECT_EQ(entries[0].tensor.size_bytes(), 0);
    EXPECT_EQ(entries[0].shape(), Shape({5}));
  }
}

// Of many elements what is encoded run by run is what Encode makes of all, with
// what was left out before.
TEST(CompressorTest, RunsAreEncodedAsTheWholeIs) {
  for (const char* text : {"2bit:0.5", "1bit:0.25", "f16,feedback", "f8e5m2",
                           "i8:64", "i8:100", "2bit,no-feedback", "f16", "bf16",
                           "f8e4m3fn,no-feedback", "i8:64,no-feedback"}) {
    for (const int size : {1, 1023, 1024, 1025, 5003}) {
      const Compression compression = *Compression::Parse(text);
      Compressor compressor(All(text));
      std::vector<float> left(size);
      const auto memory = MakeRefCounted<BufferPool>(/*max_idle_bytes=*/0);
      for (int push = 0; push < 3; ++push) {
        std::vector<double> elements(size);
        if (!compression.feedback) left.assign(size, -0.0f);
        for (int i = 0; i < size; ++i) {
          elements[i] = std::sin(i * 0.7 + push) * (i % 13);
          left[i] += static_cast<float>(elements[i]);
        }
        const auto entries = compressor.Compress(0, Entries(Vector(elements)));
        const EncodedTensor whole = Encode(compression, {size}, /*seed=*/0,
                                           absl::MakeSpan(left), *memory)
                                        .value();
        EXPECT_EQ(BytesOf(entries.value()[0].tensor), BytesOf(whole.tensor))
            << text << " of " << size;
      }
    }
  }
}

// What casts and blocks leave out of rows is not carried over; other encodings
// would need that, and rows stay as they are.
TEST(CompressorTest, RowsAreEncodedEachTimeAlike) {
  const RefPtr<const RowIds> ids = *RowIds::Create(Vector({2}, DType::kI64));
  const auto push = [&](Compressor& compressor, const Tensor& tensor) {
    return compressor.Compress(1,
                               {{.key = "w", .tensor = tensor, .rows = ids}});
  };
  const Tensor rows = testing::TensorOf({1, 3}, {1, 1.0004, -3});
  for (const char* text : {"f16", "bf16", "f8e5m2", "i8:2", "f8e4m3fn:64"}) {
    Compressor compressor(All(text));
    std::string bytes;
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto entries, push(compressor, rows));
      EXPECT_EQ(entries[0].shape(), rows.shape());
      EXPECT_NE(BytesOf(entries[0].tensor), BytesOf(rows)) << text;
      if (i == 0) bytes = BytesOf(entries[0].tensor);
      EXPECT_EQ(BytesOf(entries[0].tensor), bytes) << text;
    }
    EXPECT_THAT(push(compressor, testing::TensorOf({1, 3}, {1, NAN, 1})),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("key \"w\": compression: expected finite")));
  }
  for (const char* text : {"2bit", "1bit", "sign", "topk:0.5", "randomk:0.5",
                           "dithering:8", "f16,momentum=0.9"}) {
    Compressor compressor(All(text));
    ASSERT_OK_AND_ASSIGN(const auto entries, push(compressor, rows));
    EXPECT_EQ(entries[0].encoding, nullptr) << text;
    EXPECT_EQ(BytesOf(entries[0].tensor), BytesOf(rows)) << text;
  }
}

TEST(CompressorTest, NoRowsStayAsTheyAre) {
  Compressor compressor(All("i8:2"));
  const Tensor none = *Tensor::Allocate(DType::kF32, {0, 3});

  ASSERT_OK_AND_ASSIGN(
      const auto entries,
      compressor.Compress(
          1, {{.key = "w",
               .tensor = none,
               .rows = *RowIds::Create(Vector({}, DType::kI64))}}));

  EXPECT_EQ(entries[0].encoding, nullptr);
  EXPECT_EQ(entries[0].shape(), none.shape());
}

TEST(CompressorTest, FirstRuleThatMatchesCounts) {
  Compressor compressor({.rules = {{"*.bias", {}},
                                   {"fc*weight*", *Compression::Parse("f16")},
                                   {"", *Compression::Parse("bf16")}},
                         .min_bytes = 8});
  std::vector<PushEntry> entries = {
      {.key = "fc1.bias", .tensor = Full({4}, 1)},
      {.key = "fc1.weight", .tensor = Full({4}, 1)},
      {.key = "conv", .tensor = Full({4}, 1)},
      {.key = "conv", .tensor = Full({1}, 1)},
      {.key = "ids", .tensor = Full({4}, 1, DType::kI32)}};
  ASSERT_OK_AND_ASSIGN(entries, compressor.Compress(0, std::move(entries)));
  std::vector<DType> dtypes;
  for (const PushEntry& entry : entries) dtypes.push_back(entry.dtype());
  EXPECT_THAT(dtypes, ElementsAre(DType::kF32, DType::kF16, DType::kBF16,
                                  DType::kF32, DType::kI32));
}

TEST(CompressorTest, WhatIsNotFiniteIsRefusedAndForgotten) {
  Compressor compressor(All("2bit:0.5"));
  EXPECT_THAT(Pushed(compressor, {0.3}), ElementsAre(0));
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    EXPECT_THAT(compressor.Compress(0, Entries(Vector({bad}))),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("key \"w\": compression: expected finite")));
  }
  EXPECT_THAT(Pushed(compressor, {0.3}), ElementsAre(0b11000000));
}

TEST(CompressorTest, WhatWeighsNothingIsNoPartOfAResidual) {
  Compressor compressor(All("2bit:0.5"));
  EXPECT_THAT(Pushed(compressor, {0.3}), ElementsAre(0));
  for (const double element : {-0.3, double{NAN}}) {
    std::vector<PushEntry> entries = Entries(Vector({element}));
    entries[0].weight = 0;
    ASSERT_OK_AND_ASSIGN(entries, compressor.Compress(0, std::move(entries)));
    EXPECT_FALSE(entries[0].encoding);
  }
  EXPECT_THAT(Pushed(compressor, {0.3}), ElementsAre(0b11000000));
}

TEST(CompressorTest, CallThatIsRefusedChangesNoKey) {
  for (const char* of_b : {"2bit:0.5", "f16"}) {
    Compressor compressor({.rules = {{"b", *Compression::Parse(of_b)},
                                     {"", *Compression::Parse("2bit:0.5")}},
                           .min_bytes = 0});
    EXPECT_THAT(compressor.Compress(0, {{.key = "w", .tensor = Vector({0.3})},
                                        {.key = "b", .tensor = Vector({NAN})}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("key \"b\": compression: expected finite")));
    EXPECT_THAT(Pushed(compressor, {0.3}), ElementsAre(0));
  }
}

TEST(CompressorTest, SumThatIsTooLargeIsRefusedAndForgotten) {
  for (const char* text : {"2bit:0.5", "topk:0.5,momentum=0.9"}) {
    Compressor compressor(All(text));
    constexpr double kLarge = 3e38;
    const Tensor tensor = Full({8}, kLarge);
    absl::Status status;
    for (int push = 0; push < 2 && status.ok(); ++push) {
      status = compressor.Compress(0, Entries(tensor)).status();
    }
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("key \"w\": compression: expected a sum")));

    Compressor other(All(text));
    for (const double element : {1.0, 0.25}) {
      const Tensor next = Full({8}, element);
      EXPECT_EQ(
          BytesOf(compressor.Compress(0, Entries(next)).value()[0].tensor),
          BytesOf(other.Compress(0, Entries(next)).value()[0].tensor));
    }
  }
}

// What a code lacks of an element is finite if what it decodes to is.
TEST(CompressorTest, LargestNumbersDecodeToFiniteOnes) {
  for (const char* text :
       {"2bit:0.5", "1bit", "sign", "i8:4", "f8e4m3fn:4", "f8e5m2:4", "f16",
        "bf16", "dithering:2", "dithering:4", "dithering:8", "dithering:8,l2",
        "dithering:8,natural", "dithering:8,natural,l2"}) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    for (const double element : {kLargest, -kLargest}) {
      Compressor compressor(All(absl::StrCat(text, ",feedback").c_str()));
      EXPECT_OK(compressor.Compress(0, Entries(Full({8}, element)))) << text;
      EXPECT_OK(compressor.Compress(0, Entries(Full({8}, 0)))) << text;
    }
  }
}

TEST(CompressorTest, BytesBeforeAndAfterAreObserved) {
  int64_t before = 0;
  int64_t after = 0;
  Compressor compressor(All("2bit"),
                        [&](Compression::Kind kind, int64_t in, int64_t out) {
                          EXPECT_EQ(kind, Compression::Kind::kTwoBit);
                          before += in;
                          after += out;
                        });
  Pushed(compressor, {1, 2, 3, 4, 5});
  EXPECT_EQ(before, 20);
  EXPECT_EQ(after, 2);
}

std::vector<DType> DTypesOf(const Residuals& left) {
  std::vector<DType> dtypes;
  for (const SendCast& cast : left.casts()) dtypes.push_back(cast.dtype);
  return dtypes;
}

TEST(CompressorTest, CastsOfWhichNoStepIsRememberedAreLeftToTheSender) {
  Compressor compressor({.rules = {{"a", *Compression::Parse("f16")},
                                   {"b", *Compression::Parse("bf16,feedback")},
                                   {"", *Compression::Parse("none")}},
                         .min_bytes = 0});
  const std::vector<PushEntry> alone = {{.key = "c", .tensor = Vector({1})},
                                        {.key = "a", .tensor = Vector({1})}};
  const std::vector<PushEntry> kept = {{.key = "a", .tensor = Vector({1})},
                                       {.key = "b", .tensor = Vector({1})}};
  Residuals of_step(/*takes_casts=*/true);
  ASSERT_OK_AND_ASSIGN(auto entries, compressor.Compress(1, alone, &of_step));
  EXPECT_THAT(DTypesOf(of_step), ElementsAre(DType::kUnknown, DType::kF16));
  EXPECT_EQ(of_step.casts()[1].feedback, nullptr);
  EXPECT_EQ(entries[1].dtype(), DType::kF32);

  Residuals of_none(/*takes_casts=*/true);
  ASSERT_OK_AND_ASSIGN(entries, compressor.Compress(0, kept, &of_none));
  EXPECT_THAT(DTypesOf(of_none), ElementsAre(DType::kF16, DType::kBF16));
  EXPECT_NE(of_none.casts()[1].feedback, nullptr);
  EXPECT_EQ(entries[1].dtype(), DType::kF32);

  // The repeat of a step would find something else left out.
  Residuals of_another(/*takes_casts=*/true);
  ASSERT_OK_AND_ASSIGN(entries, compressor.Compress(2, kept, &of_another));
  EXPECT_THAT(of_another.casts(), IsEmpty());
  EXPECT_EQ(entries[0].dtype(), DType::kF16);
  EXPECT_EQ(entries[1].dtype(), DType::kBF16);

  // Stripes may end within an element behind an odd number of bytes.
  Residuals odd(/*takes_casts=*/true);
  ASSERT_OK_AND_ASSIGN(
      entries,
      compressor.Compress(
          0, {{.key = "c", .tensor = Full({3}, 1, DType::kU8)}, kept[1]},
          &odd));
  EXPECT_THAT(odd.casts(), IsEmpty());
}

// Casts "w" as a sender does, twice: what is on its way may be lost.
std::string Sent(Compressor& compressor, const Tensor& tensor, bool is_made) {
  Residuals left(/*takes_casts=*/true);
  const auto entries = compressor.Compress(0, Entries(tensor), &left);
  const auto memory = MakeRefCounted<BufferPool>(0);
  const SendCast cast = left.casts().at(0);
  (void)Cast(entries.value()[0].tensor, cast, *memory);
  const auto again = Cast(entries.value()[0].tensor, cast, *memory);
  if (is_made) left.Keep();
  return again.ok() ? BytesOf(*again) : std::string(again.status().message());
}

TEST(CompressorTest, WhatSendersCastIsWhatWouldHaveBeenEncoded) {
  for (const char* text :
       {"f16,feedback", "bf16,feedback", "f8e4m3fn", "f8e5m2"}) {
    Compressor whole(All(text));
    Compressor in_parts(All(text));
    const auto encode = [](Compressor& compressor, const Tensor& tensor) {
      return BytesOf(compressor.Compress(0, Entries(tensor)).value()[0].tensor);
    };
    for (const double scale : {1.0, 0.001, 7e4, 3.0}) {
      std::vector<double> elements;
      for (int i = 0; i < 2052; ++i) elements.push_back(std::sin(i) * scale);
      const Tensor tensor = Vector(elements);
      // A push that is not made changes nothing.
      Sent(in_parts, tensor, /*is_made=*/false);

      EXPECT_TRUE(Sent(in_parts, tensor, /*is_made=*/true) ==
                  encode(whole, tensor))
          << text << ", " << scale;
    }
    // Nothing is lost between both ways.
    EXPECT_TRUE(encode(in_parts, Full({2052}, 1)) ==
                encode(whole, Full({2052}, 1)))
        << text;
  }
}

TEST(CompressorTest, WhatPushesAtOnceLeaveOutIsAddedUp) {
  Compressor compressor(All("f16,feedback"));
  const Tensor tensor = Vector({1.0001});
  {
    Residuals first(/*takes_casts=*/true);
    const auto entries = compressor.Compress(0, Entries(tensor), &first);
    Sent(compressor, tensor, /*is_made=*/true);
    const auto memory = MakeRefCounted<BufferPool>(0);
    ASSERT_OK(Cast(entries.value()[0].tensor, first.casts()[0], *memory));
    first.Keep();
  }

  Residuals left(/*takes_casts=*/true);
  ASSERT_OK(compressor.Compress(0, Entries(tensor), &left));

  const float once = 1.0001f - 1.0f;
  EXPECT_EQ(left.casts()[0].feedback->before[0], once + once);
}

TEST(CompressorTest, PushThatWasNeverCastWholeChangesNoKey) {
  Compressor compressor(All("f16,feedback"));
  const Tensor tensor = Full({4}, 1.0001);
  Sent(compressor, tensor, /*is_made=*/true);
  const float once = 1.0001f - 1.0f;
  for (const size_t num_cast : {3, 4}) {
    Residuals left(/*takes_casts=*/true);
    ASSERT_OK(compressor.Compress(0, Entries(tensor), &left));
    const SendCast cast = left.casts().at(0);
    EXPECT_EQ(cast.feedback->before[0], once);
    char out[8];
    ASSERT_OK(CastElements(tensor, cast, 0, num_cast, out));
    left.Keep();
  }

  Residuals left(/*takes_casts=*/true);
  ASSERT_OK(compressor.Compress(0, Entries(tensor), &left));

  EXPECT_EQ(left.casts()[0].feedback->before[0], (1.0001f + once) - 1.0f);
}

TEST(CompressorTest, WhatIsLeftOutOfAShapeIsKeptUntilAnotherIsPushed) {
  Compressor compressor(All("f16,feedback"));
  const Tensor tensor = Vector({1.0001, 1.0001});
  Sent(compressor, tensor, /*is_made=*/true);
  Sent(compressor, Vector({3}), /*is_made=*/false);
  {
    Residuals left(/*takes_casts=*/true);
    ASSERT_OK(compressor.Compress(0, Entries(tensor), &left));
    EXPECT_EQ(left.casts()[0].feedback->before[1], 1.0001f - 1.0f);
  }
  Sent(compressor, Vector({1}), /*is_made=*/true);

  Residuals left(/*takes_casts=*/true);
  ASSERT_OK(compressor.Compress(0, Entries(tensor), &left));

  EXPECT_EQ(left.casts()[0].feedback->before[1], 0);
}

// What is sent for elements of "w", one entry for each vector, by a push that
// is made or not.
std::vector<std::string> Encoded(
    Compressor& compressor, const std::vector<std::vector<double>>& elements,
    bool is_made) {
  std::vector<PushEntry> entries;
  for (const auto& each : elements) {
    entries.push_back({.key = "w", .tensor = Vector(each)});
  }
  Residuals left(/*takes_casts=*/false);
  entries = compressor.Compress(0, std::move(entries), &left).value();
  std::vector<std::string> bytes;
  for (const PushEntry& entry : entries) bytes.push_back(BytesOf(entry.tensor));
  if (is_made) left.Keep();
  return bytes;
}

// All that may be kept: residual, moment, and what random numbers follow from.
TEST(CompressorTest, PushThatIsNotMadeChangesNoKey) {
  for (const char* text :
       {"2bit:0.5", "1bit:0.1", "sign", "topk:0.3", "randomk:0.3",
        "dithering:4", "i8:2", "i8:8", "f8e5m2", "bf16,feedback",
        "topk:0.3,momentum=0.9", "randomk:0.3,no-feedback,momentum=0.5"}) {
    Compressor once(All(text));
    Compressor tried(All(text));
    for (const double scale : {1.0, 0.25, -3.0}) {
      const std::vector<std::vector<double>> elements = {
          {scale, 0.3, -0.7 * scale, 0.1}, {0.2, -scale, 0.6, 0.9}};
      Encoded(tried, elements, /*is_made=*/false);
      Encoded(tried, {elements[1]}, /*is_made=*/false);
      // Elements of another number leave what is left out of these.
      Encoded(tried, {{1, 2}}, /*is_made=*/false);

      EXPECT_EQ(Encoded(tried, elements, /*is_made=*/true),
                Encoded(once, elements, /*is_made=*/true))
          << text;
    }
  }
}

TEST(CompressorTest, WhatEncodedPushesAtOnceLeaveOutIsAddedUp) {
  Compressor compressor(All("2bit:1"));
  {
    Residuals first(/*takes_casts=*/false);
    ASSERT_OK(compressor.Compress(0, Entries(Vector({0.4})), &first));
    EXPECT_THAT(Encoded(compressor, {{0.9}}, /*is_made=*/false),
                ElementsAre(std::string(1, '\0')));
    EXPECT_THAT(Encoded(compressor, {{0.4}}, /*is_made=*/true),
                ElementsAre(std::string(1, '\0')));
    first.Keep();
  }

  EXPECT_THAT(Encoded(compressor, {{0.2}}, /*is_made=*/true),
              ElementsAre(std::string(1, '\xc0')));
}

TEST(CompressorTest, SumThatIsTooLargeIsForgottenThoughThePushIsNotMade) {
  Compressor compressor(All("2bit:1"));
  const double largest = std::numeric_limits<float>::max();
  Encoded(compressor, {{largest}}, /*is_made=*/true);
  {
    Residuals left(/*takes_casts=*/false);
    EXPECT_THAT(compressor.Compress(0, Entries(Vector({largest})), &left),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is forgotten")));
  }

  EXPECT_THAT(Encoded(compressor, {{0}}, /*is_made=*/true),
              ElementsAre(std::string(1, '\0')));
}

TEST(CastRangesTest, CoverWhatWasAdded) {
  CastRanges ranges;
  EXPECT_TRUE(ranges.Cover(0));
  EXPECT_FALSE(ranges.Cover(1));
  ranges.Add(8, 10);
  ranges.Add(2, 4);
  ranges.Add(0, 3);
  EXPECT_TRUE(ranges.Cover(4));
  EXPECT_FALSE(ranges.Cover(5));
  ranges.Add(5, 8);
  EXPECT_FALSE(ranges.Cover(5));
  ranges.Add(1, 6);
  EXPECT_TRUE(ranges.Cover(10));
  EXPECT_FALSE(ranges.Cover(11));
}

TEST(CompressorTest, SumThatASenderFindsTooLargeIsForgotten) {
  Compressor compressor(All("f16,feedback"));
  const Tensor largest = Vector({std::numeric_limits<float>::max()});
  EXPECT_THAT(Sent(compressor, largest, true), HasSubstr("\xff\x7b"));
  EXPECT_THAT(Sent(compressor, Vector({NAN}), false),
              HasSubstr("expected finite elements"));
  EXPECT_THAT(Sent(compressor, largest, false), HasSubstr("is forgotten"));

  EXPECT_EQ(Sent(compressor, Vector({0}), true), std::string(2, '\0'));
}

}  // namespace compressor_test
}  // namespace tensorkv
