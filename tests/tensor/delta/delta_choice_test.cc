// Which encoding a block gets, and which frames are taken.

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/delta/delta_decoder.h"
#include "tensor/delta/delta_encoder.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::StatusIs;
using Elements = std::vector<uint16_t>;

TensorView ViewOf(const Elements& elements) {
  return {DType::kBF16, static_cast<int64_t>(elements.size()), elements.data()};
}

// Changes some elements by much.
Elements FewLargeChanges(Elements elements) {
  for (size_t i = 0; i < elements.size(); i += 4000) elements[i] ^= 0x4321;
  return elements;
}

TEST(DeltaChoiceTest, SparseTakesFewLargeChangesOf16BitsToo) {
  const Elements from(40000, 0x3f80);
  const Elements to = FewLargeChanges(from);

  const auto delta =
      EncodeDelta(ViewOf(from), ViewOf(to),
                  {DeltaEncoding::kSparse, DeltaEncoding::kOneUlp});

  ASSERT_TRUE(delta);
  EXPECT_EQ((*delta)[0], static_cast<char>(DeltaEncoding::kSparse));
  EXPECT_EQ(delta->size(), kBlockHeaderBytes + 10 * 6);
}

TEST(DeltaChoiceTest, CompressedOneUlpComesAlone) {
  std::mt19937 random(1);
  Elements from(40000);
  for (uint16_t& element : from) element = static_cast<uint16_t>(random());
  Elements to = from;
  for (size_t i = 0; i < to.size(); i += 1 + random() % 3) ++to[i];

  const auto delta =
      EncodeDelta(ViewOf(from), ViewOf(to), {DeltaEncoding::kOneUlpZstd});

  ASSERT_TRUE(delta);
  EXPECT_EQ((*delta)[0], static_cast<char>(DeltaEncoding::kOneUlpZstd));
}

TEST(DeltaChoiceTest, ElementsOf16BitsAloneHaveOneUlp) {
  EXPECT_EQ(DeltaEncodings::All().ForElementsOf(2), DeltaEncodings::All());
  for (const size_t bytes : {1, 4, 8}) {
    EXPECT_EQ(
        DeltaEncodings::All().ForElementsOf(bytes),
        (DeltaEncodings{DeltaEncoding::kSparse, DeltaEncoding::kXorZstd}));
  }
}

// libzstd skips such a frame, and has nothing of it.
TEST(DeltaChoiceTest, FramesThatNoEncoderWritesAreMalformed) {
  const std::string skippable("\x50\x2A\x4D\x18\0\0\0\0", 8);
  std::string delta(1, static_cast<char>(DeltaEncoding::kOneUlpZstd));
  const auto size = static_cast<uint32_t>(2 * skippable.size());
  delta.append(reinterpret_cast<const char*>(&size), sizeof(size));
  delta += skippable + skippable;
  const Elements from(100, 1);
  Elements to(100);

  EXPECT_THAT(DecodeDelta(delta, DigestOf(ViewOf(from)), ViewOf(from),
                          {DType::kBF16, 100, to.data()}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv
