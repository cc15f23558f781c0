#include "contract/payload_reader.h"

#include <cstddef>
#include <limits>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "contract/message_fields.h"
#include "contract/message_reader.h"
#include "contract/wire_reader.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

using ::google::protobuf::io::ZeroCopyInputStream;
using wire::MessageReader;
using wire::WireReader;

template <typename Call>
void ReadFields(MessageReader& in, Call& call) {
  wire::FieldsOf<Call>::Read(in, call);
}

// Returns the error of `in`; OK if all of the message was read.
absl::Status Finish(WireReader& in, uint64_t message_bytes) {
  if (in.ok() && in.position() != message_bytes) in.Fail();
  return in.status();
}

// Ranges are positions of the stream, whatever its messages.
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

bool CopyNext(WireReader& in, const PayloadRange& range, char* destination) {
  if (range.offset < in.position()) return false;
  in.Skip(range.offset - in.position());
  in.Copy(range.size_bytes, destination);
  return in.ok();
}

bool HasHeadroomFor(Tensor* tensor, const PayloadRange& payload) {
  return tensor != nullptr && tensor->has_data() &&
         static_cast<uint64_t>(tensor->size_bytes()) == payload.size_bytes;
}

}  // namespace

template <typename Call>
absl::StatusOr<Decoded<Call>> ReadCall(ZeroCopyInputStream* stream,
                                       uint64_t message_bytes,
                                       uint32_t max_entries,
                                       Elements elements) {
  absl::StatusOr<Decoded<Call>> decoded(absl::in_place);
  MessageReader in(stream, message_bytes, max_entries, elements,
                   &decoded->payloads);
  ReadFields(in, decoded->call);
  RETURN_IF_ERROR(Finish(in, message_bytes));
  return decoded;
}

#define TENSORKV_INSTANTIATE(Call)                 \
  template absl::StatusOr<Decoded<Call>> ReadCall( \
      ZeroCopyInputStream*, uint64_t, uint32_t, Elements)
TENSORKV_INSTANTIATE(InitRequest);
TENSORKV_INSTANTIATE(SetStateRequest);
TENSORKV_INSTANTIATE(PushRequest);
TENSORKV_INSTANTIATE(PushRowsRequest);
TENSORKV_INSTANTIATE(PushPullRequest);
TENSORKV_INSTANTIATE(PullRequest);
TENSORKV_INSTANTIATE(PullRowsRequest);
TENSORKV_INSTANTIATE(GetStateRequest);
TENSORKV_INSTANTIATE(PullReply);
TENSORKV_INSTANTIATE(PushReply);
#undef TENSORKV_INSTANTIATE

bool ReadPayloads(ZeroCopyInputStream* in,
                  absl::Span<const PayloadRange> payloads,
                  absl::Span<Tensor* const> tensors) {
  if (payloads.size() != tensors.size()) return false;
  WireReader reader(in, kNoLimit);
  for (size_t i = 0; i < payloads.size(); ++i) {
    if (payloads[i].size_bytes == 0) continue;
    if (!HasHeadroomFor(tensors[i], payloads[i]) ||
        !CopyNext(reader, payloads[i], tensors[i]->mutable_data())) {
      return false;
    }
  }
  return true;
}

bool CopyRange(ZeroCopyInputStream* in, PayloadRange range, char* destination) {
  WireReader reader(in, kNoLimit);
  return CopyNext(reader, range, destination);
}

bool CopyBytes(ZeroCopyInputStream* in, uint64_t offset,
               absl::Span<const absl::Span<char>> destinations) {
  WireReader reader(in, kNoLimit);
  reader.Skip(offset);
  for (const absl::Span<char> destination : destinations) {
    reader.Copy(destination.size(), destination.data());
  }
  return reader.ok();
}

}  // namespace tensorkv
