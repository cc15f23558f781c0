// Pushes of what is no delta.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/contracts/pushed_deltas.h"
#include "tests/contracts/store_contract.h"

namespace tensorkv::testing {
namespace pushed_deltas_contract {

// Returns a block's header and what follows it.
std::string Block(DeltaEncoding encoding, const std::string& bytes) {
  std::string block(kBlockHeaderBytes, static_cast<char>(encoding));
  const auto size = static_cast<uint32_t>(bytes.size());
  std::memcpy(&block[1], &size, sizeof(size));
  return block + bytes;
}

// Returns a frame of zstd with so many zeros.
std::string Compressed(size_t num_zeros) {
  DeltaScratch scratch;
  std::string frame(num_zeros + num_zeros / 100 + 1000, '\0');
  const auto size = scratch.Compress(std::string(num_zeros, '\0'), 3,
                                     frame.data(), frame.size());
  return frame.substr(0, size.value());
}

TEST_P(ChangesContractTest, MalformedDeltasChangeNothing) {
  SKIP_WITHOUT_DELTAS();
  const Tensor from = Changed(0, 1);
  const Tensor to = Changed(7, 2);
  const std::string token = Begin(store_, "w", from);
  const std::string delta = DeltaOf(from, to);
  const uint64_t digest = DigestOf(to.view());
  std::string index_outside(8, '\xff');
  // More than a block can have.
  const std::string bomb = Compressed(8 << 20);

  std::vector<std::string> all = {
      "",
      delta + "x",
      delta + delta,
      std::string(100, '\xff'),
      Block(static_cast<DeltaEncoding>(6), ""),
      Block(DeltaEncoding::kUnchanged, "x"),
      Block(DeltaEncoding::kWhole, "x"),
      Block(DeltaEncoding::kSparse, "x"),
      Block(DeltaEncoding::kSparse, std::string(1 << 20, 0)),
      Block(DeltaEncoding::kSparse, index_outside),
      Block(DeltaEncoding::kXorZstd, "x"),
      Block(DeltaEncoding::kXorZstd, bomb),
      Block(DeltaEncoding::kOneUlpZstd, bomb + bomb),
      Block(DeltaEncoding::kOneUlp, "xxxxxxxx"),
      Block(DeltaEncoding::kUnchanged, "")};
  for (size_t size = 1; size < delta.size(); size += 3) {
    all.push_back(delta.substr(0, size));
  }
  for (const std::string& bytes : all) {
    EXPECT_THAT(Push(store_, {EntryOf("w", token, bytes, digest)}),
                IsMalformed());
  }
  EXPECT_THAT(Push(store_, {EntryOf("w", token, delta, digest ^ 1)}),
              IsMalformed());
  PushEntry other = EntryOf("w", token, delta, digest);
  other.tensor = to;
  EXPECT_THAT(Push(store_, {other}), IsMalformed());

  EXPECT_EQ(BytesOf(store_.Pull("w")->tensor), BytesOf(from));
  EXPECT_EQ(store_.Describe()->memory().contributions(), 0);
  EXPECT_OK(Push(store_, {EntryOf("w", token, delta, digest)}));
}

TEST_P(ChangesContractTest, DeltaThatMakesABoolOfTwoIsMalformed) {
  SKIP_WITHOUT_DELTAS();
  const Tensor from = Full({9}, 1, DType::kBool);
  Tensor to = Full({9}, 1, DType::kU8);
  to.mutable_data()[3] = 2;
  const std::string token = Begin(store_, "w", from);

  EXPECT_THAT(Push(store_, {EntryOf("w", token,
                                    Block(DeltaEncoding::kWhole, BytesOf(to)),
                                    DigestOf(to.view()))}),
              IsMalformed());
}

}  // namespace pushed_deltas_contract
}  // namespace tensorkv::testing
