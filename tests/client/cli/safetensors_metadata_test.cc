#include "client/cli/safetensors_metadata.h"

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensor/safetensors.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

TEST(SafetensorsMetadataTest, HeadersKeepTheirTensors) {
  const std::string metadata = R"({"format":"pt"})";
  for (const size_t num_tensors : {0, 1}) {
    // Tensors may have the name of the member, too.
    std::vector<SafetensorsEntry> entries(
        num_tensors, {"__metadata__", DType::kU8, *Shape::Create({0})});
    const std::string plain = SafetensorsHeader(absl::MakeSpan(entries));

    const std::string header = WithSafetensorsMetadata(plain, metadata);

    const auto parsed = ParseSafetensorsHeader(header, header.size());
    ASSERT_OK(parsed.status());
    EXPECT_EQ(parsed->size(), num_tensors);
    EXPECT_EQ(header.size() % 4096, 0u);
    EXPECT_EQ(SafetensorsMetadata(header), metadata);
    EXPECT_EQ(SafetensorsMetadata(plain), "");
    EXPECT_EQ(WithSafetensorsMetadata(plain, ""), plain);
  }
}

TEST(SafetensorsMetadataTest, IsAnObjectOfStrings) {
  EXPECT_TRUE(IsSafetensorsMetadata(R"({"a":"1"})"));
  EXPECT_TRUE(IsSafetensorsMetadata("{}"));
  for (const char* const wrong : {"", "{", "[]", "\"a\"", R"({"a":1})"}) {
    EXPECT_FALSE(IsSafetensorsMetadata(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace tensorkv
