#include "tensor/delta/delta_decoder.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tensor/delta/delta_encoder.h"
#include "tensor/delta/one_ulp_code.h"

namespace tensorkv {
namespace {

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("delta: malformed ", what));
}

absl::Status ApplySparse(absl::string_view sparse, size_t element_bytes,
                         char* to, size_t bytes) {
  const size_t each = sizeof(uint32_t) + element_bytes;
  if (sparse.size() % each != 0) return Malformed("list of elements");
  const size_t count = sparse.size() / each;
  const char* const values = sparse.data() + count * sizeof(uint32_t);
  for (size_t i = 0; i < count; ++i) {
    uint32_t index;
    std::memcpy(&index, sparse.data() + i * sizeof(index), sizeof(index));
    if (index >= bytes / element_bytes) return Malformed("index");
    std::memcpy(to + index * element_bytes, values + i * element_bytes,
                element_bytes);
  }
  return absl::OkStatus();
}

absl::Status ApplyXor(absl::string_view frame, char* to, size_t bytes,
                      DeltaScratch& scratch) {
  const auto difference = scratch.Decompress(frame, bytes, scratch.bytes);
  if (!difference || difference->size() != bytes || !frame.empty()) {
    return Malformed("frame");
  }
  for (size_t i = 0; i < bytes; ++i) {
    to[i] = static_cast<char>(to[i] ^ (*difference)[i]);
  }
  return absl::OkStatus();
}

absl::Status ApplyOneUlp(absl::string_view code, char* to,
                         size_t num_elements) {
  uint32_t num_codes;
  if (code.size() < sizeof(num_codes)) return Malformed("code of one ulp");
  std::memcpy(&num_codes, code.data(), sizeof(num_codes));
  code.remove_prefix(sizeof(num_codes));
  if (num_codes > code.size()) return Malformed("code of one ulp");
  return one_ulp::Apply({code.substr(0, num_codes), code.substr(num_codes)}, to,
                        num_elements);
}

absl::Status ApplyCompressedOneUlp(absl::string_view frames, char* to,
                                   size_t num_elements, DeltaScratch& scratch) {
  const auto codes = scratch.Decompress(frames, one_ulp::MaxCodes(num_elements),
                                        scratch.codes);
  if (!codes) return Malformed("frame");
  const auto magnitudes = scratch.Decompress(
      frames, one_ulp::MaxMagnitudes(num_elements), scratch.magnitudes);
  if (!magnitudes || !frames.empty()) return Malformed("frame");
  return one_ulp::Apply({*codes, *magnitudes}, to, num_elements);
}

}  // namespace

absl::StatusOr<DeltaDecoder> DeltaDecoder::Create(absl::string_view delta,
                                                  TensorView from) {
  DeltaDecoder decoder(from);
  const size_t num_blocks = NumDeltaBlocks(from.size_bytes());
  // Before there is memory for them.
  if (num_blocks > delta.size() / kBlockHeaderBytes) return Malformed("length");
  decoder.blocks_.reserve(num_blocks);
  for (size_t i = 0; i < num_blocks; ++i) {
    uint32_t size;
    if (delta.size() < kBlockHeaderBytes) return Malformed("length");
    std::memcpy(&size, delta.data() + 1, sizeof(size));
    const auto encoding = static_cast<uint8_t>(delta[0]);
    if (encoding >= kNumDeltaEncodings) return Malformed("encoding");
    delta.remove_prefix(kBlockHeaderBytes);
    if (size > delta.size() || size > DeltaBlockBytes(from.size_bytes(), i)) {
      return Malformed("length");
    }
    decoder.blocks_.push_back(
        {static_cast<DeltaEncoding>(encoding), delta.substr(0, size)});
    delta.remove_prefix(size);
  }
  if (!delta.empty()) return Malformed("length");
  return decoder;
}

absl::Status DeltaDecoder::DecodeBlock(size_t index, char* to,
                                       DeltaScratch& scratch) const {
  const Block& block = blocks_[index];
  const size_t begin = index * kDeltaBlockBytes;
  const size_t bytes = DeltaBlockBytes(from_.size_bytes(), index);
  char* const out = to + begin;
  if (block.encoding == DeltaEncoding::kWhole) {
    if (block.bytes.size() != bytes) return Malformed("length");
    std::memcpy(out, block.bytes.data(), bytes);
    return absl::OkStatus();
  }
  const char* const in = static_cast<const char*>(from_.data) + begin;
  if (in != out) std::memcpy(out, in, bytes);
  const size_t element_bytes = SizeOf(from_.dtype);
  switch (block.encoding) {
    case DeltaEncoding::kSparse:
      return ApplySparse(block.bytes, element_bytes, out, bytes);
    case DeltaEncoding::kXorZstd:
      return ApplyXor(block.bytes, out, bytes, scratch);
    case DeltaEncoding::kOneUlp:
      return ApplyOneUlp(block.bytes, out, bytes / sizeof(uint16_t));
    case DeltaEncoding::kOneUlpZstd:
      return ApplyCompressedOneUlp(block.bytes, out, bytes / sizeof(uint16_t),
                                   scratch);
    default:
      return block.bytes.empty() ? absl::OkStatus() : Malformed("length");
  }
}

absl::Status DecodeDelta(absl::string_view delta, uint64_t digest,
                         TensorView from, MutableTensorView to) {
  ASSIGN_OR_RETURN(const DeltaDecoder decoder,
                   DeltaDecoder::Create(delta, from));
  DeltaScratch scratch;
  for (size_t i = 0; i < decoder.num_blocks(); ++i) {
    RETURN_IF_ERROR(
        decoder.DecodeBlock(i, static_cast<char*>(to.data), scratch));
  }
  if (DigestOf(to) == digest) return absl::OkStatus();
  return absl::DataLossError(
      "delta: the result has another digest than it was told");
}

}  // namespace tensorkv
