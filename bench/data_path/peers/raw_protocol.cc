#include "bench/data_path/peers/raw_protocol.h"

#include "absl/strings/string_view.h"

namespace tensorkv::bench {
namespace {

RawHeader HeaderOf(RawOperation operation, const ValueRange& range,
                   int64_t size_bytes) {
  return {.operation = operation,
          .slot = static_cast<uint32_t>(range.lane),
          .size_bytes = static_cast<uint64_t>(size_bytes)};
}

absl::string_view BytesOfHeader(const RawHeader& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

}  // namespace

void RawProtocol::AddPut(const ValueRange& range, const char* values,
                         Exchange* exchange) const {
  const RawHeader header =
      HeaderOf(RawOperation::kPut, range, range.size_bytes());
  exchange->Send(BytesOfHeader(header));
  exchange->SendValues(values, range.size_bytes());
  exchange->Expect(BytesOfHeader(header));
}

void RawProtocol::AddGet(const ValueRange& range, char* values,
                         Exchange* exchange) const {
  exchange->Send(BytesOfHeader(HeaderOf(RawOperation::kGet, range, 0)));
  exchange->Expect(
      BytesOfHeader(HeaderOf(RawOperation::kGet, range, range.size_bytes())));
  exchange->ReceiveValues(values, range.size_bytes());
}

void RawProtocol::AddDelete(const ValueRange& range, Exchange* exchange) const {
  const RawHeader header = HeaderOf(RawOperation::kDelete, range, 0);
  exchange->Send(BytesOfHeader(header));
  exchange->Expect(BytesOfHeader(header));
}

}  // namespace tensorkv::bench
