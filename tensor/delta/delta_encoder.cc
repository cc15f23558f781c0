#include "tensor/delta/delta_encoder.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "tensor/delta/one_ulp_code.h"

namespace tensorkv {
namespace {

// Is the level at which others compress the exclusive or of both.
constexpr int kXorLevel = 3;
// Codes of one ulp have few runs that repeat: it is their entropy that counts.
constexpr int kCodeLevel = 1;
// Fewer bytes gain nothing by a frame of their own.
constexpr size_t kLeastCompressed = 64;
// Bound what a thread takes for each byte of a block: codes and magnitudes
// three, the others two, tables of zstd up to two; and what zstd takes besides.
constexpr size_t kScratchPerByte = 8;
constexpr size_t kZstdBytes = 512 << 10;
// zstd is not tried for a block of which another encoding takes at most that
// share.
constexpr size_t kSmallShare = 8;
// Is how much of a large block is compressed by itself first: where that gains
// less than a sixteenth, so would the whole of it.
constexpr size_t kSampleBytes = 16 << 10;
constexpr size_t kLeastGain = 16;

// Appends each changed element's index in the block, and its new value, to two
// runs, as long as they are shorter than the block. Returns whether they are.
template <typename Bits>
bool FindChanged(const char* from, const char* to, size_t bytes,
                 std::string& memory, absl::string_view* sparse) {
  const size_t num_elements = bytes / sizeof(Bits);
  constexpr size_t kEach = sizeof(uint32_t) + sizeof(Bits);
  const size_t most = bytes / kEach;
  GrowTo(most * kEach + most * sizeof(Bits), memory);
  char* const indices = memory.data();
  char* const values = indices + most * kEach;
  size_t count = 0;
  for (size_t i = 0; i < num_elements; ++i) {
    Bits before;
    Bits after;
    std::memcpy(&before, from + i * sizeof(Bits), sizeof(Bits));
    std::memcpy(&after, to + i * sizeof(Bits), sizeof(Bits));
    if (before == after) continue;
    if (count == most) return false;
    const auto index = static_cast<uint32_t>(i);
    std::memcpy(indices + count * sizeof(index), &index, sizeof(index));
    std::memcpy(values + count * sizeof(Bits), &after, sizeof(Bits));
    ++count;
  }
  std::memcpy(indices + count * sizeof(uint32_t), values, count * sizeof(Bits));
  *sparse = {indices, count * kEach};
  return true;
}

bool FindChanged(size_t element_bytes, const char* from, const char* to,
                 size_t bytes, std::string& memory, absl::string_view* sparse) {
  switch (element_bytes) {
    case 1:
      return FindChanged<uint8_t>(from, to, bytes, memory, sparse);
    case 2:
      return FindChanged<uint16_t>(from, to, bytes, memory, sparse);
    case 4:
      return FindChanged<uint32_t>(from, to, bytes, memory, sparse);
    default:
      return FindChanged<uint64_t>(from, to, bytes, memory, sparse);
  }
}

}  // namespace

void DeltaEncoder::Block::TakeIfSmaller(DeltaEncoding smaller,
                                        absl::string_view its_bytes) {
  if (its_bytes.size() >= size_bytes) return;
  encoding = smaller;
  size_bytes = its_bytes.size();
  bytes.assign(its_bytes.data(), its_bytes.size());
}

size_t DeltaEncoder::MaxScratchBytes(size_t tensor_bytes) {
  const size_t zstd_bytes = tensor_bytes < kLeastCompressed ? 0 : kZstdBytes;
  return kScratchPerByte * std::min(tensor_bytes, kDeltaBlockBytes) +
         zstd_bytes;
}

void DeltaEncoder::EncodeBlock(size_t index, DeltaScratch& scratch) {
  Block& block = blocks_[index];
  const size_t begin = index * kDeltaBlockBytes;
  const BlockView view = {static_cast<const char*>(from_.data) + begin,
                          static_cast<const char*>(to_.data) + begin,
                          DeltaBlockBytes(to_.size_bytes(), index)};
  block = {DeltaEncoding::kWhole, "", view.bytes};
  if (std::memcmp(view.from, view.to, view.bytes) == 0) {
    block = {DeltaEncoding::kUnchanged, "", 0};
    return;
  }
  const DeltaEncodings accepted = accepted_.ForElementsOf(SizeOf(to_.dtype));
  size_t least_sparse = 0;
  if (accepted.Has(DeltaEncoding::kOneUlp) ||
      accepted.Has(DeltaEncoding::kOneUlpZstd)) {
    least_sparse =
        TryOneUlp(view, scratch, block) * (sizeof(uint32_t) + sizeof(uint16_t));
  }
  if (accepted.Has(DeltaEncoding::kSparse) && least_sparse < block.size_bytes) {
    TrySparse(view, scratch, block);
  }
  if (accepted_.Has(DeltaEncoding::kXorZstd) &&
      view.bytes >= kLeastCompressed &&
      block.size_bytes > view.bytes / kSmallShare) {
    TryXor(view, scratch, block);
  }
}

size_t DeltaEncoder::TryOneUlp(const BlockView& view, DeltaScratch& scratch,
                               Block& block) const {
  const one_ulp::Code code = one_ulp::Encode(
      view.from, view.to, view.bytes / sizeof(uint16_t), scratch);
  const auto num_codes = static_cast<uint32_t>(code.codes.size());
  std::string& bytes = scratch.bytes;
  if (accepted_.Has(DeltaEncoding::kOneUlp) &&
      sizeof(num_codes) + code.size() < block.size_bytes) {
    bytes.assign(reinterpret_cast<const char*>(&num_codes), sizeof(num_codes));
    bytes.append(code.codes.data(), code.codes.size());
    bytes.append(code.magnitudes.data(), code.magnitudes.size());
    block.TakeIfSmaller(DeltaEncoding::kOneUlp, bytes);
  }
  if (!accepted_.Has(DeltaEncoding::kOneUlpZstd) ||
      code.size() < kLeastCompressed) {
    return code.num_changes;
  }
  GrowTo(block.size_bytes, scratch.compressed);
  char* const out = scratch.compressed.data();
  const auto codes =
      scratch.Compress(code.codes, kCodeLevel, out, block.size_bytes);
  if (!codes) return code.num_changes;
  const auto magnitudes = scratch.Compress(
      code.magnitudes, kCodeLevel, out + *codes, block.size_bytes - *codes);
  if (!magnitudes) return code.num_changes;
  block.TakeIfSmaller(DeltaEncoding::kOneUlpZstd, {out, *codes + *magnitudes});
  return code.num_changes;
}

void DeltaEncoder::TrySparse(const BlockView& view, DeltaScratch& scratch,
                             Block& block) const {
  absl::string_view sparse;
  if (FindChanged(SizeOf(to_.dtype), view.from, view.to, view.bytes,
                  scratch.bytes, &sparse)) {
    block.TakeIfSmaller(DeltaEncoding::kSparse, sparse);
  }
}

void DeltaEncoder::TryXor(const BlockView& view, DeltaScratch& scratch,
                          Block& block) const {
  GrowTo(view.bytes, scratch.bytes);
  char* const difference = scratch.bytes.data();
  for (size_t i = 0; i < view.bytes; ++i) {
    difference[i] = static_cast<char>(view.from[i] ^ view.to[i]);
  }
  GrowTo(block.size_bytes, scratch.compressed);
  char* const out = scratch.compressed.data();
  if (view.bytes > 2 * kSampleBytes && block.size_bytes >= kSampleBytes) {
    const char* const middle = difference + view.bytes / 2;
    if (!scratch.Compress({middle, kSampleBytes}, kXorLevel, out,
                          kSampleBytes - kSampleBytes / kLeastGain)) {
      return;
    }
  }
  const auto size = scratch.Compress({difference, view.bytes}, kXorLevel, out,
                                     block.size_bytes);
  if (size) block.TakeIfSmaller(DeltaEncoding::kXorZstd, {out, *size});
}

size_t DeltaEncoder::size_bytes() const {
  size_t bytes = 0;
  for (const Block& block : blocks_) {
    bytes += kBlockHeaderBytes + block.size_bytes;
  }
  return bytes;
}

void DeltaEncoder::Write(char* out) const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const auto size = static_cast<uint32_t>(block.size_bytes);
    *out = static_cast<char>(block.encoding);
    std::memcpy(out + 1, &size, sizeof(size));
    out += kBlockHeaderBytes;
    const char* const bytes =
        block.encoding == DeltaEncoding::kWhole
            ? static_cast<const char*>(to_.data) + i * kDeltaBlockBytes
            : block.bytes.data();
    std::memcpy(out, bytes, size);
    out += size;
  }
}

std::optional<std::string> EncodeDelta(TensorView from, TensorView to,
                                       DeltaEncodings accepted) {
  DeltaEncoder encoder(from, to, accepted);
  DeltaScratch scratch;
  for (size_t i = 0; i < encoder.num_blocks(); ++i) {
    encoder.EncodeBlock(i, scratch);
  }
  if (encoder.size_bytes() >= to.size_bytes()) return std::nullopt;
  std::string delta(encoder.size_bytes(), '\0');
  encoder.Write(delta.data());
  return delta;
}

uint64_t DigestOf(TensorView tensor) {
  return XXH3_64bits(tensor.data, tensor.size_bytes());
}

}  // namespace tensorkv
