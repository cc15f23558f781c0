#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/delta/delta_decoder.h"
#include "tensor/delta/delta_encoder.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using Bytes = std::vector<char>;
using Random = std::mt19937_64;

constexpr DeltaEncodings kSets[] = {
    {},
    {DeltaEncoding::kSparse},
    {DeltaEncoding::kXorZstd},
    {DeltaEncoding::kOneUlp},
    {DeltaEncoding::kOneUlp, DeltaEncoding::kOneUlpZstd},
    DeltaEncodings::All()};

Bytes RandomBytes(Random& random, size_t size) {
  Bytes bytes(size);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Changes a share of the elements, by one bit, by one, or in all of their bits.
Bytes Changed(Random& random, const Bytes& from, size_t element_bytes,
              double share) {
  Bytes to = from;
  std::bernoulli_distribution is_changed(share);
  for (size_t at = 0; at < to.size(); at += element_bytes) {
    if (!is_changed(random)) continue;
    uint64_t bits = 0;
    std::memcpy(&bits, &to[at], element_bytes);
    switch (random() % 4) {
      case 0:
        bits ^= uint64_t{1} << random() % 64;
        break;
      case 1:
        ++bits;
        break;
      case 2:
        --bits;
        break;
      default:
        bits = random();
    }
    std::memcpy(&to[at], &bits, element_bytes);
  }
  return to;
}

// A tensor's dtype and size, over memory of exactly its size.
TensorView ViewOf(DType dtype, const Bytes& bytes) {
  return {dtype, static_cast<int64_t>(bytes.size() / SizeOf(dtype)),
          bytes.data()};
}

void ExpectReconstructed(DType dtype, const Bytes& from, const Bytes& to,
                         DeltaEncodings accepted) {
  const TensorView value = ViewOf(dtype, to);
  const auto delta = EncodeDelta(ViewOf(dtype, from), value, accepted);
  if (!delta) return;
  EXPECT_LT(delta->size(), to.size());
  Bytes decoded(to.size());
  EXPECT_THAT(DecodeDelta(*delta, DigestOf(value), ViewOf(dtype, from),
                          {dtype, value.num_elements, decoded.data()}),
              testing::IsOk());
  EXPECT_EQ(decoded, to);
}

// Has all bits at random: NaNs of any payload and zeros of both signs too.
TEST(DeltaTest, AnyTensorsOfAnyDTypeAreReconstructedBitForBit) {
  Random random(1);
  for (const DType dtype : kAllDTypes) {
    for (const int64_t size : {0, 1, 2, 3, 4, 5, 63, 64, 65, 4097}) {
      for (const double share : {0.0, 0.003, 0.1, 1.0}) {
        SCOPED_TRACE(absl::StrCat(NameOf(dtype), " ", size, " ", share));
        const Bytes from = RandomBytes(random, size * SizeOf(dtype));
        const Bytes to = Changed(random, from, SizeOf(dtype), share);
        for (const DeltaEncodings accepted : kSets) {
          ExpectReconstructed(dtype, from, to, accepted);
        }
      }
    }
  }
}

TEST(DeltaTest, EveryPairOf16BitFloatsIsReconstructed) {
  const uint16_t patterns[] = {0,      0x8000, 1,      0x8001, 0x7f7f, 0x7f80,
                               0x7f81, 0xff80, 0x7fff, 0xffff, 0x3f80, 0xbf80};
  constexpr int64_t kSize = 1024;
  for (const uint16_t before : patterns) {
    for (const uint16_t after : patterns) {
      Bytes from(2 * kSize);
      Bytes to = from;
      std::memcpy(&from[600], &before, sizeof(before));
      std::memcpy(&to[600], &after, sizeof(after));
      ExpectReconstructed(DType::kBF16, from, to, DeltaEncodings::All());
    }
  }
}

TEST(DeltaTest, SeveralBlocksAreEncodedByThemselves) {
  Random random(2);
  Bytes from = RandomBytes(random, 2 * kDeltaBlockBytes + 6);
  for (const DeltaEncodings accepted : kSets) {
    Bytes to = from;
    to[kDeltaBlockBytes] ^= 1;
    to.back() ^= 1;
    ExpectReconstructed(DType::kF16, from, to, accepted);
  }
  const auto same =
      EncodeDelta(ViewOf(DType::kF16, from), ViewOf(DType::kF16, from), {});
  EXPECT_EQ(same, std::string(3 * kBlockHeaderBytes, '\0'));
}

TEST(DeltaTest, WhereTheWholeIsSmallerThereIsNone) {
  Random random(3);
  const Bytes from = RandomBytes(random, 4000);
  const Bytes to = RandomBytes(random, 4000);
  for (const DeltaEncodings accepted : kSets) {
    EXPECT_EQ(EncodeDelta(ViewOf(DType::kF32, from), ViewOf(DType::kF32, to),
                          accepted),
              std::nullopt);
  }
  EXPECT_EQ(EncodeDelta(ViewOf(DType::kF32, {}), ViewOf(DType::kF32, {}),
                        DeltaEncodings::All()),
            std::nullopt);
}

TEST(DeltaTest, TheSmallestEncodingIsTaken) {
  const auto encoding_of = [](DType dtype, double share) {
    Random random(4);
    const Bytes from = RandomBytes(random, kDeltaBlockBytes / 2);
    Bytes to = from;
    std::bernoulli_distribution is_changed(share);
    for (size_t at = 0; at < to.size(); at += SizeOf(dtype)) {
      if (is_changed(random)) to[at] ^= 1;
    }
    const auto delta = EncodeDelta(ViewOf(dtype, from), ViewOf(dtype, to),
                                   DeltaEncodings::All());
    return static_cast<DeltaEncoding>(delta.value()[0]);
  };
  EXPECT_EQ(encoding_of(DType::kBF16, 0.0002), DeltaEncoding::kOneUlp);
  EXPECT_EQ(encoding_of(DType::kBF16, 0.1), DeltaEncoding::kOneUlpZstd);
  EXPECT_EQ(encoding_of(DType::kF32, 0.001), DeltaEncoding::kSparse);
  EXPECT_EQ(encoding_of(DType::kF32, 1), DeltaEncoding::kXorZstd);
}

// Returns a delta of each encoding, and of all of them.
std::vector<std::string> SomeDeltas(const Bytes& from, const Bytes& to) {
  std::vector<std::string> deltas;
  for (const DeltaEncodings accepted : kSets) {
    auto delta = EncodeDelta(ViewOf(DType::kBF16, from),
                             ViewOf(DType::kBF16, to), accepted);
    if (delta) deltas.push_back(*std::move(delta));
  }
  return deltas;
}

class DamagedDeltaTest : public ::testing::Test {
 protected:
  // Expects that `damaged`, in memory of exactly its size, is found to be so
  // unless it is the right tensor all the same.
  void ExpectFound(absl::string_view damaged) {
    const std::unique_ptr<char[]> copy(new char[damaged.size()]);
    std::memcpy(copy.get(), damaged.data(), damaged.size());
    Bytes decoded(to_.size());
    const absl::Status status = DecodeDelta(
        {copy.get(), damaged.size()}, DigestOf(ViewOf(DType::kBF16, to_)),
        ViewOf(DType::kBF16, from_),
        {DType::kBF16, static_cast<int64_t>(to_.size() / 2), decoded.data()});
    EXPECT_TRUE(!status.ok() || decoded == to_);
  }

  Random random_{5};
  const Bytes from_ = RandomBytes(random_, 6000);
  const Bytes to_ = Changed(random_, from_, 2, 0.05);
};

TEST_F(DamagedDeltaTest, EveryTruncationIsAnError) {
  for (const std::string& delta : SomeDeltas(from_, to_)) {
    for (size_t size = 0; size < delta.size(); ++size) {
      Bytes decoded(to_.size());
      EXPECT_FALSE(
          DecodeDelta(absl::string_view(delta).substr(0, size), 0,
                      ViewOf(DType::kBF16, from_),
                      {DType::kBF16, static_cast<int64_t>(to_.size() / 2),
                       decoded.data()})
              .ok());
      ExpectFound(absl::string_view(delta).substr(0, size));
    }
  }
}

TEST_F(DamagedDeltaTest, EveryChangeOfAByteIsFound) {
  for (std::string delta : SomeDeltas(from_, to_)) {
    for (char& byte : delta) {
      for (const int bits : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
        byte ^= static_cast<char>(bits);
        ExpectFound(delta);
        byte ^= static_cast<char>(bits);
      }
    }
  }
}

TEST_F(DamagedDeltaTest, WrongBaseIsDataLoss) {
  const auto delta =
      EncodeDelta(ViewOf(DType::kBF16, from_), ViewOf(DType::kBF16, to_),
                  {DeltaEncoding::kSparse});
  Bytes other = from_;
  other[0] ^= 1;
  Bytes decoded(to_.size());
  EXPECT_THAT(DecodeDelta(delta.value(), DigestOf(ViewOf(DType::kBF16, to_)),
                          ViewOf(DType::kBF16, other),
                          {DType::kBF16, static_cast<int64_t>(to_.size() / 2),
                           decoded.data()}),
              testing::StatusIs(absl::StatusCode::kDataLoss));
}

TEST(DeltaTest, MemoryIsBoundedBeforeItIsAllocated) {
  const TensorView huge = {DType::kF32, int64_t{1} << 60, nullptr};

  EXPECT_THAT(DeltaDecoder::Create("short", huge).status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv
