#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "tests/contract/generated/fields.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv {
namespace {

// What is out of its range stays so.
uint8_t ClampedToByte(int64_t number) {
  return static_cast<uint8_t>(std::clamp<int64_t>(number, 0, UINT8_MAX));
}

// Errors: Unimplemented.
absl::StatusOr<Packing> DecodePacking(const v1::Encoding& proto) {
  switch (proto.kind_case()) {
    case v1::Encoding::kTwoBit:
      return Packing{.kind = PackingKind::kTwoBit,
                     .scale = proto.two_bit().threshold()};
    case v1::Encoding::kOneBit:
      return Packing{.kind = PackingKind::kOneBit,
                     .scale = proto.one_bit().scale()};
    case v1::Encoding::kTopK:
      return Packing{.kind = PackingKind::kTopK,
                     .count = proto.top_k().count()};
    case v1::Encoding::kRandomK:
      return Packing{.kind = PackingKind::kRandomK,
                     .block_size = proto.random_k().block_size(),
                     .seed = proto.random_k().seed()};
    case v1::Encoding::kDithering:
      return Packing{.kind = PackingKind::kDithering,
                     .bits = ClampedToByte(proto.dithering().bits()),
                     .is_natural = proto.dithering().natural(),
                     .scale = proto.dithering().norm()};
    case v1::Encoding::kBlocks:
      return Packing{.kind = PackingKind::kBlocks,
                     .element_dtype = ClampedToByte(proto.blocks().element()),
                     .block_size = proto.blocks().block_size()};
    case v1::Encoding::KIND_NOT_SET:
      break;
  }
  return WithReason(
      absl::UnimplementedError("encoding: none that this server knows"),
      Reason::kEncodingUnknown);
}

absl::Status CheckPayloadLength(const Encoding& encoding, size_t actual) {
  const int64_t expected = encoding.payload_bytes();
  if (actual == static_cast<size_t>(expected)) return absl::OkStatus();
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat(
          "payload: expected ", expected, " bytes for an encoded ",
          Description(encoding.dtype(), encoding.shape()), ", got ", actual)),
      Reason::kEncodingMalformed);
}

// Decodes the encoding of the tensor `proto`, which is to be decoded with
// `decode`.
absl::StatusOr<RefPtr<const Encoding>> DecodeEncoding(
    const v1::Encoding& encoding, const v1::Tensor& proto,
    TensorDecoder decode) {
  ASSIGN_OR_RETURN(const Packing packing, DecodePacking(encoding));
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(proto.dtype()));
  ASSIGN_OR_RETURN(const Shape shape, DecodeShape(proto.shape()));
  ASSIGN_OR_RETURN(RefPtr<const Encoding> decoded,
                   Encoding::Create(packing, dtype, shape));
  if (decode == DecodeWithData) {
    RETURN_IF_ERROR(CheckPayloadLength(*decoded, proto.data().size()));
  }
  return decoded;
}

// Makes of an encoded tensor the u8 tensor of its payload.
void MakePayload(const Encoding& encoding, v1::Tensor* proto) {
  proto->set_dtype(v1::DTYPE_U8);
  proto->clear_shape();
  proto->add_shape(encoding.payload_bytes());
}

void EncodeEncoding(const Encoding& encoding, v1::Encoding* proto) {
  const Packing& packing = encoding.packing();
  switch (packing.kind) {
    case PackingKind::kTwoBit:
      return proto->mutable_two_bit()->set_threshold(packing.scale);
    case PackingKind::kOneBit:
      return proto->mutable_one_bit()->set_scale(packing.scale);
    case PackingKind::kTopK:
      return proto->mutable_top_k()->set_count(packing.count);
    case PackingKind::kRandomK:
      proto->mutable_random_k()->set_block_size(packing.block_size);
      return proto->mutable_random_k()->set_seed(packing.seed);
    case PackingKind::kDithering:
      proto->mutable_dithering()->set_bits(packing.bits);
      proto->mutable_dithering()->set_norm(packing.scale);
      return proto->mutable_dithering()->set_natural(packing.is_natural);
    case PackingKind::kBlocks:
      proto->mutable_blocks()->set_element(
          static_cast<v1::DType>(packing.element_dtype));
      return proto->mutable_blocks()->set_block_size(packing.block_size);
  }
}

}  // namespace

template <typename Proto>
absl::Status DecodeContribution(Proto& proto, TensorDecoder decode,
                                PushEntry* entry) {
  if (!proto.has_tensor()) {
    return absl::InvalidArgumentError("tensor: missing");
  }
  if (proto.has_encoding()) {
    ASSIGN_OR_RETURN(entry->encoding,
                     DecodeEncoding(proto.encoding(), proto.tensor(), decode));
    MakePayload(*entry->encoding, proto.mutable_tensor());
  }
  ASSIGN_OR_RETURN(entry->tensor, decode(*proto.mutable_tensor()));
  return absl::OkStatus();
}

template <typename Proto>
void EncodeContribution(const PushEntry& entry, TensorEncoder encode,
                        Proto* proto) {
  v1::Tensor* const tensor = proto->mutable_tensor();
  encode(entry.tensor, tensor);
  if (!entry.encoding) return;
  EncodeEncoding(*entry.encoding, proto->mutable_encoding());
  tensor->set_dtype(static_cast<v1::DType>(entry.dtype()));
  tensor->clear_shape();
  EncodeShape(entry.shape(), tensor->mutable_shape());
}

template absl::Status DecodeContribution(v1::PushEntry& proto,
                                         TensorDecoder decode,
                                         PushEntry* entry);
template absl::Status DecodeContribution(v1::PushRowsEntry& proto,
                                         TensorDecoder decode,
                                         PushEntry* entry);
template void EncodeContribution(const PushEntry& entry, TensorEncoder encode,
                                 v1::PushEntry* proto);
template void EncodeContribution(const PushEntry& entry, TensorEncoder encode,
                                 v1::PushRowsEntry* proto);

}  // namespace tensorkv
