#include "contract/encoding.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

absl::Status Unexpected(absl::string_view subject, absl::string_view expected,
                        absl::string_view actual) {
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat(
          "encoding: ", subject, ": expected ", expected, ", got ", actual)),
      Reason::kEncodingMalformed);
}

absl::Status CheckScale(absl::string_view subject, float scale) {
  if (scale > 0 && std::isfinite(scale)) return absl::OkStatus();
  return Unexpected(subject, "a positive number", absl::StrCat(scale));
}

absl::Status CheckElementType(const Packing& packing) {
  switch (static_cast<DType>(packing.element_dtype)) {
    case DType::kI8:
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      return absl::OkStatus();
    default:
      return Unexpected("element", "i8, f8e4m3fn or f8e5m2",
                        absl::StrCat("dtype ", packing.element_dtype));
  }
}

absl::Status CheckBlockSize(const Packing& packing) {
  if (packing.block_size > 0) return absl::OkStatus();
  return Unexpected("block_size", "at least 1", "0");
}

absl::Status CheckBits(const Packing& packing) {
  if (packing.bits == 2 || packing.bits == 4 || packing.bits == 8) {
    return absl::OkStatus();
  }
  return Unexpected("bits", "2, 4 or 8", absl::StrCat(packing.bits));
}

absl::Status CheckCount(const Packing& packing) {
  if (packing.count <= packing.num_elements) return absl::OkStatus();
  return Unexpected("count", absl::StrCat("at most ", packing.num_elements),
                    absl::StrCat(packing.count));
}

absl::Status CheckParameters(const Packing& packing) {
  switch (packing.kind) {
    case PackingKind::kTwoBit:
      return CheckScale("threshold", packing.scale);
    case PackingKind::kOneBit:
      return CheckScale("scale", packing.scale);
    case PackingKind::kTopK:
      return CheckCount(packing);
    case PackingKind::kRandomK:
      return CheckBlockSize(packing);
    case PackingKind::kDithering:
      RETURN_IF_ERROR(CheckBits(packing));
      return CheckScale("norm", packing.scale);
    case PackingKind::kBlocks:
      RETURN_IF_ERROR(CheckElementType(packing));
      return CheckBlockSize(packing);
  }
  return Unexpected("kind", "one that this server knows", "another");
}

absl::Status CheckDType(const Packing& packing, DType dtype) {
  if (dtype == DType::kF32 || (HasValues(packing) && IsFloat(dtype))) {
    return absl::OkStatus();
  }
  return Unexpected("dtype of the tensor",
                    HasValues(packing) ? "a float" : "f32", NameOf(dtype));
}

uint64_t BytesOfCodes(uint64_t num_elements, uint64_t bits) {
  const uint64_t per_byte = 8 / bits;
  return num_elements / per_byte + (num_elements % per_byte != 0);
}

// Tensors have less than 2^63 elements, so codes never overflow. The estimates
// tell where sums and products of the others would.
absl::StatusOr<int64_t> PayloadBytes(const Packing& packing, DType dtype) {
  constexpr double kMaxBytes = 0x1p62;
  const uint64_t size = SizeOf(dtype);
  double estimate = 0;
  uint64_t bytes = 0;
  switch (packing.kind) {
    case PackingKind::kTwoBit:
      return BytesOfCodes(packing.num_elements, 2);
    case PackingKind::kOneBit:
      return BytesOfCodes(packing.num_elements, 1);
    case PackingKind::kDithering:
      return BytesOfCodes(packing.num_elements, packing.bits);
    case PackingKind::kTopK:
      estimate = static_cast<double>(packing.count) * (8 + size);
      bytes = TopKValuesOffset(packing) + packing.count * size;
      break;
    case PackingKind::kRandomK:
      estimate = static_cast<double>(NumBlocks(packing)) * size;
      bytes = NumBlocks(packing) * size;
      break;
    case PackingKind::kBlocks:
      estimate = static_cast<double>(packing.num_elements) +
                 static_cast<double>(NumBlocks(packing)) * 4;
      bytes = BlockElementsOffset(packing) + packing.num_elements;
      break;
  }
  if (estimate < kMaxBytes) return static_cast<int64_t>(bytes);
  return Unexpected("payload", "less than 2^62 bytes", "more");
}

template <typename Index>
absl::Status CheckIndices(const Packing& packing, const char* payload) {
  const auto* const indices = reinterpret_cast<const Index*>(payload);
  uint64_t next = 0;  // the lowest index that may follow
  for (uint64_t i = 0; i < packing.count; ++i) {
    const uint64_t index = indices[i];
    if (index < next || index >= packing.num_elements) {
      return Unexpected(absl::StrCat("index ", i, " of top-k"),
                        absl::StrCat("from ", next, " to below ",
                                     packing.num_elements, ", rising"),
                        absl::StrCat(index));
    }
    next = index + 1;
  }
  return absl::OkStatus();
}

// Checks what fills the payload up between `begin` and `end`.
absl::Status CheckPadding(const char* payload, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    if (payload[i] == 0) continue;
    return Unexpected(absl::StrCat("byte ", i, ", which pads the payload"), "0",
                      absl::StrCat(static_cast<uint8_t>(payload[i])));
  }
  return absl::OkStatus();
}

absl::Status CheckScales(const Packing& packing, const char* payload) {
  const auto* const scales = reinterpret_cast<const float*>(payload);
  const uint64_t num_blocks = NumBlocks(packing);
  for (uint64_t i = 0; i < num_blocks; ++i) {
    RETURN_IF_ERROR(CheckScale("scale of a block", scales[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RefPtr<const Encoding>> Encoding::Create(Packing packing,
                                                        DType dtype,
                                                        const Shape& shape) {
  RETURN_IF_ERROR(CheckDType(packing, dtype));
  if (HasValues(packing)) packing.element_dtype = static_cast<uint8_t>(dtype);
  packing.num_elements = shape.num_elements();
  RETURN_IF_ERROR(CheckParameters(packing));
  ASSIGN_OR_RETURN(const int64_t bytes, PayloadBytes(packing, dtype));
  return RefPtr<const Encoding>(new Encoding(packing, dtype, shape, bytes));
}

absl::Status Encoding::CheckPayload(const char* payload) const {
  if (reinterpret_cast<uintptr_t>(payload) % sizeof(uint64_t) != 0) {
    return Unexpected("payload", "memory aligned to 8 bytes", "other");
  }
  switch (packing_.kind) {
    case PackingKind::kTopK:
      RETURN_IF_ERROR(CheckPadding(payload,
                                   packing_.count * IndexBytes(packing_),
                                   TopKValuesOffset(packing_)));
      return IndexBytes(packing_) == sizeof(uint64_t)
                 ? CheckIndices<uint64_t>(packing_, payload)
                 : CheckIndices<uint32_t>(packing_, payload);
    case PackingKind::kBlocks:
      RETURN_IF_ERROR(CheckPadding(payload, NumBlocks(packing_) * sizeof(float),
                                   BlockElementsOffset(packing_)));
      return CheckScales(packing_, payload);
    default:
      return absl::OkStatus();
  }
}

}  // namespace tensorkv
