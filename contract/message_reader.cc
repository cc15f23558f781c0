#include "contract/message_reader.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "contract/reason.h"
#include "tensor/shape.h"
#include "tensorkv/v1/tensor.pb.h"

namespace tensorkv::wire {
namespace {

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

MessageReader::MessageReader(google::protobuf::io::ZeroCopyInputStream* in,
                             uint64_t message_bytes, uint32_t max_entries,
                             Elements elements,
                             std::vector<PayloadRange>* payloads)
    : WireReader(in, message_bytes),
      max_entries_(max_entries),
      elements_(elements),
      payloads_(*payloads) {
  if (message_bytes > kMaxMessageBytes) Fail();
}

void MessageReader::FailMissing(absl::string_view field) {
  Fail(absl::InvalidArgumentError(absl::StrCat(field, ": missing")));
}

Shape MessageReader::ReadShape() {
  std::array<int64_t, Shape::kMaxRank> dimensions;
  size_t rank = 0;
  if (Accept(RunTag(v1::Tensor::kShapeFieldNumber))) {
    ReadMessage([&] {
      for (; bytes_left() > 0; ++rank) {
        const uint64_t number = ReadNumber();
        if (rank < dimensions.size()) {
          dimensions[rank] = static_cast<int64_t>(number);
        }
      }
    });
  }
  if (rank > dimensions.size()) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("shape: expected a rank of at most ", Shape::kMaxRank,
                     ", got ", rank)));
    return Shape();
  }
  return ValueOr(Shape::Create(absl::MakeConstSpan(dimensions).first(rank)),
                 Shape());
}

MessageReader::TensorType MessageReader::ReadType() {
  const bool has_dtype = Accept(NumberTag(v1::Tensor::kDtypeFieldNumber));
  const int number = has_dtype ? static_cast<int>(ReadNumber()) : 0;
  TensorType type;
  type.dtype = ValueOr(DTypeFromNumber(number), DType::kUnknown);
  type.shape = ReadShape();
  if (Accept(RunTag(v1::Tensor::kDataFieldNumber))) {
    type.size_bytes = ReadLength();
  }
  return type;
}

Tensor MessageReader::MakeTensor(const TensorType& type) {
  if (!ok()) return Tensor();
  Tensor tensor =
      ValueOr(Tensor::WithoutData(type.dtype, type.shape), Tensor());
  if (ok() && static_cast<uint64_t>(tensor.size_bytes()) != type.size_bytes) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("tensor: expected ", tensor.size_bytes(), " bytes for ",
                     tensor.Description(), ", got ", type.size_bytes)));
  }
  return tensor;
}

RefPtr<const RowIds> MessageReader::ReadRows(Tag tag) {
  if (!Accept(tag)) {
    FailMissing("rows");
    return nullptr;
  }
  Tensor ids;
  ReadMessage([&] {
    const TensorType type = ReadType();
    ids = MakeTensor(type);
    if (ok()) ids = ValueOr(Tensor::Allocate(type.dtype, type.shape), {});
    if (ok()) Copy(type.size_bytes, ids.mutable_data());
  });
  if (!ok()) {
    Explain("rows");
    return nullptr;
  }
  return ValueOr<RefPtr<const RowIds>>(RowIds::Create(std::move(ids)), nullptr);
}

RefPtr<const Encoding> MessageReader::ReadEncoded(Tag tag,
                                                  const Packing& packing,
                                                  Tensor* tensor) {
  if (!Accept(tag)) {
    FailMissing("tensor");
    return nullptr;
  }
  RefPtr<const Encoding> encoding;
  ReadMessage([&] {
    const TensorType type = ReadType();
    if (!ok()) return;
    encoding = ValueOr<RefPtr<const Encoding>>(
        Encoding::Create(packing, type.dtype, type.shape), nullptr);
    if (!ok()) return;
    if (elements_ == Elements::kPresent) {
      const absl::Status status =
          CheckPayloadLength(*encoding, type.size_bytes);
      if (!status.ok()) return Fail(status);
    }
    *tensor = *Tensor::WithoutData(DType::kU8, {encoding->payload_bytes()});
    AddPayload(type.size_bytes);
  });
  return encoding;
}

void MessageReader::ReadAnew(Tag tag) {
  const absl::string_view ahead = Peek(header_.size());
  std::copy(ahead.begin(), ahead.end(), header_.begin());
  header_bytes_ = 0;
  const uint64_t begin = position();
  if (!Accept(tag)) return FailMissing("tensor");
  ReadMessage([&] {
    const TensorType type = ReadType();
    const bool has_elements = elements_ == Elements::kPresent;
    if (has_elements) type_ = MakeTensor(type);
    if (!has_elements && ok()) {
      type_ = ValueOr(Tensor::WithoutData(type.dtype, type.shape), {});
    }
    AddPayload(type.size_bytes);
  });
  if (!ok()) return;
  const PayloadRange& payload = payloads_.back();
  if (payload.size_bytes == 0 || payload.offset - begin > ahead.size()) {
    return;
  }
  header_bytes_ = payload.offset - begin;
  payload_bytes_ = payload.size_bytes;
}

void MessageReader::AddPayload(uint64_t size_bytes) {
  if (ok() && size_bytes > 0 && elements_ == Elements::kLeftOut) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
        "tensor: expected no data in a manifest, got ", size_bytes, " bytes")));
  }
  payloads_.push_back({position(), size_bytes});
  Skip(size_bytes);
}

}  // namespace tensorkv::wire
