#include <limits>

#include "contract/payload_reader.h"
#include "contract/wire_reader.h"

namespace tensorkv {
namespace {

using ::google::protobuf::io::ZeroCopyInputStream;
using wire::WireReader;

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

}  // namespace tensorkv
