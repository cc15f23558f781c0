#include "contract/tensor_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "contract/reason.h"
#include "tensor/shape.h"

namespace tensorkv::wire {
namespace {

Shape ReadShape(WireReader& in) {
  std::array<int64_t, Shape::kMaxRank> dimensions;
  size_t rank = 0;
  if (in.Accept(kTensorShape)) {
    in.ReadMessage([&] {
      for (; in.bytes_left() > 0; ++rank) {
        const uint64_t number = in.ReadNumber();
        if (rank < dimensions.size()) {
          dimensions[rank] = static_cast<int64_t>(number);
        }
      }
    });
  }
  if (rank > dimensions.size()) {
    in.Fail(absl::InvalidArgumentError(
        absl::StrCat("shape: expected a rank of at most ", Shape::kMaxRank,
                     ", got ", rank)));
    return Shape();
  }
  return ValueOr(in, Shape::Create(absl::MakeConstSpan(dimensions).first(rank)),
                 Shape());
}

// What a Tensor says of its elements.
struct TensorType {
  DType dtype = DType::kUnknown;
  Shape shape;
};

// Reads a tensor up to its elements, and sets how many bytes these have, which
// are next.
TensorType ReadType(WireReader& in, uint64_t* size_bytes) {
  const int number = in.Accept(kTensorDType) ? ReadEnum(in) : 0;
  TensorType type;
  type.dtype = ValueOr(in, DTypeFromNumber(number), DType::kUnknown);
  type.shape = ReadShape(in);
  *size_bytes = in.Accept(kTensorData) ? in.ReadLength() : 0;
  return type;
}

// Returns a tensor of that type, without data. Fails if its elements do not
// take so many bytes.
Tensor MakeTensor(WireReader& in, const TensorType& type, uint64_t size_bytes) {
  if (!in.ok()) return Tensor();
  Tensor tensor =
      ValueOr(in, Tensor::WithoutData(type.dtype, type.shape), Tensor());
  if (in.ok() && static_cast<uint64_t>(tensor.size_bytes()) != size_bytes) {
    in.Fail(absl::InvalidArgumentError(
        absl::StrCat("tensor: expected ", tensor.size_bytes(), " bytes for ",
                     tensor.Description(), ", got ", size_bytes)));
  }
  return tensor;
}

// --- Encodings --------------------------------------------------------------

float ReadFloat(WireReader& in) {
  return std::bit_cast<float>(in.ReadFixed32());
}

void ReadTwoBit(WireReader& in, Packing* packing) {
  if (in.Accept(kTwoBitThreshold)) packing->scale = ReadFloat(in);
}

void ReadOneBit(WireReader& in, Packing* packing) {
  if (in.Accept(kOneBitScale)) packing->scale = ReadFloat(in);
}

void ReadTopK(WireReader& in, Packing* packing) {
  if (in.Accept(kTopKCount)) packing->count = in.ReadNumber();
}

void ReadRandomK(WireReader& in, Packing* packing) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  if (in.Accept(kRandomKBlockSize)) {
    packing->block_size = in.ReadNumberUpTo(kMax);
  }
  if (in.Accept(kRandomKSeed)) packing->seed = in.ReadFixed64();
}

// What is out of its range stays so.
uint8_t ClampedToByte(int64_t number) {
  return static_cast<uint8_t>(std::clamp<int64_t>(number, 0, UINT8_MAX));
}

void ReadDithering(WireReader& in, Packing* packing) {
  if (in.Accept(kDitheringBits)) {
    packing->bits =
        ClampedToByte(in.ReadNumberUpTo(std::numeric_limits<uint32_t>::max()));
  }
  if (in.Accept(kDitheringNorm)) packing->scale = ReadFloat(in);
  if (in.Accept(kDitheringNatural)) packing->is_natural = in.ReadBool();
}

void ReadBlocks(WireReader& in, Packing* packing) {
  if (in.Accept(kBlockElement)) {
    packing->element_dtype = ClampedToByte(ReadEnum(in));
  }
  if (in.Accept(kBlockSize)) {
    packing->block_size =
        in.ReadNumberUpTo(std::numeric_limits<uint32_t>::max());
  }
}

void Read(WireReader& in, Packing* packing) {
  using ReadKind = void (*)(WireReader&, Packing*);
  constexpr struct {
    Tag tag;
    PackingKind kind;
    ReadKind read;
  } kKinds[] = {{kTwoBit, PackingKind::kTwoBit, ReadTwoBit},
                {kOneBit, PackingKind::kOneBit, ReadOneBit},
                {kTopK, PackingKind::kTopK, ReadTopK},
                {kRandomK, PackingKind::kRandomK, ReadRandomK},
                {kDithering, PackingKind::kDithering, ReadDithering},
                {kBlocks, PackingKind::kBlocks, ReadBlocks}};
  for (const auto& [tag, kind, read] : kKinds) {
    if (!in.Accept(tag)) continue;
    packing->kind = kind;
    return in.ReadMessage([&, read = read] { read(in, packing); });
  }
  in.Fail(WithReason(
      absl::UnimplementedError("encoding: none that this server knows"),
      Reason::kEncodingUnknown));
}

absl::Status CheckPayloadLength(const Encoding& encoding, uint64_t actual) {
  const int64_t expected = encoding.payload_bytes();
  if (actual == static_cast<uint64_t>(expected)) return absl::OkStatus();
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat(
          "payload: expected ", expected, " bytes for an encoded ",
          Description(encoding.dtype(), encoding.shape()), ", got ", actual)),
      Reason::kEncodingMalformed);
}

}  // namespace

void FailMissing(WireReader& in, absl::string_view field) {
  in.Fail(absl::InvalidArgumentError(absl::StrCat(field, ": missing")));
}

DType ReadDTypeIfPresent(WireReader& in, Tag tag) {
  if (!in.Accept(tag)) return DType::kUnknown;
  return ValueOr(in, DTypeFromNumber(ReadEnum(in)), DType::kUnknown);
}

RefPtr<const RowIds> ReadRows(WireReader& in, Tag tag) {
  if (!in.Accept(tag)) {
    FailMissing(in, "rows");
    return nullptr;
  }
  Tensor ids;
  in.ReadMessage([&] {
    uint64_t size_bytes = 0;
    const TensorType type = ReadType(in, &size_bytes);
    ids = MakeTensor(in, type, size_bytes);
    if (in.ok())
      ids = ValueOr(in, Tensor::Allocate(type.dtype, type.shape), {});
    if (in.ok()) in.Copy(size_bytes, ids.mutable_data());
  });
  if (!in.ok()) {
    in.Explain("rows");
    return nullptr;
  }
  return ValueOr<RefPtr<const RowIds>>(in, RowIds::Create(std::move(ids)),
                                       nullptr);
}

Packing ReadPacking(WireReader& in) {
  Packing packing;
  in.ReadMessage([&] { Read(in, &packing); });
  return packing;
}

RefPtr<const Encoding> TensorReader::ReadEncoded(WireReader& in, Tag tag,
                                                 const Packing& packing,
                                                 Tensor* tensor) {
  RefPtr<const Encoding> encoding;
  const bool is_there = in.Accept(tag);
  if (!is_there) FailMissing(in, "tensor");
  if (!is_there) return nullptr;
  in.ReadMessage([&] {
    uint64_t size_bytes = 0;
    const TensorType type = ReadType(in, &size_bytes);
    if (in.ok()) {
      encoding = ValueOr<RefPtr<const Encoding>>(
          in, Encoding::Create(packing, type.dtype, type.shape), nullptr);
    }
    if (!in.ok()) return;
    if (elements_ == Elements::kPresent) {
      const absl::Status status = CheckPayloadLength(*encoding, size_bytes);
      if (!status.ok()) return in.Fail(status);
    }
    *tensor = *Tensor::WithoutData(DType::kU8, {encoding->payload_bytes()});
    AddPayload(in, size_bytes);
  });
  return encoding;
}

void TensorReader::ReadAnew(WireReader& in, Tag tag) {
  const absl::string_view ahead = in.Peek(header_.size());
  std::copy(ahead.begin(), ahead.end(), header_.begin());
  size_ = 0;
  const uint64_t begin = in.position();
  if (!in.Accept(tag)) return FailMissing(in, "tensor");
  in.ReadMessage([&] {
    uint64_t size_bytes = 0;
    const TensorType type = ReadType(in, &size_bytes);
    const bool has_elements = elements_ == Elements::kPresent;
    if (has_elements) type_ = MakeTensor(in, type, size_bytes);
    if (!has_elements && in.ok()) {
      type_ = ValueOr(in, Tensor::WithoutData(type.dtype, type.shape), {});
    }
    AddPayload(in, size_bytes);
  });
  if (!in.ok()) return;
  const PayloadRange& payload = payloads_.back();
  if (payload.size_bytes == 0 || payload.offset - begin > ahead.size()) {
    return;
  }
  size_ = payload.offset - begin;
  payload_bytes_ = payload.size_bytes;
}

void TensorReader::AddPayload(WireReader& in, uint64_t size_bytes) {
  if (in.ok() && size_bytes > 0 && elements_ == Elements::kLeftOut) {
    return in.Fail(absl::InvalidArgumentError(absl::StrCat(
        "tensor: expected no data in a manifest, got ", size_bytes, " bytes")));
  }
  payloads_.push_back({in.position(), size_bytes});
  in.Skip(size_bytes);
}

}  // namespace tensorkv::wire
