#include "client/internal/transfer/cast_entries.h"

#include <utility>

#include "base/status_macros.h"
#include "client/compression/cast.h"
#include "contract/stream_codec.h"

namespace tensorkv {

absl::Status CastEntries(absl::Span<const SendCast> casts, BufferPool& memory,
                         std::vector<PushEntry>& entries) {
  for (size_t i = 0; i < casts.size(); ++i) {
    if (casts[i].dtype == DType::kUnknown) continue;
    PushEntry& entry = entries[i];
    absl::StatusOr<Tensor> tensor = Cast(entry.tensor, casts[i], memory);
    if (!tensor.ok()) return OfKey(entry.key, tensor.status());
    entry.tensor = *std::move(tensor);
  }
  return absl::OkStatus();
}

absl::Status DescribeCasts(absl::Span<const SendCast> casts,
                           std::vector<PushEntry>& entries) {
  for (size_t i = 0; i < casts.size(); ++i) {
    if (casts[i].dtype == DType::kUnknown) continue;
    Tensor& tensor = entries[i].tensor;
    ASSIGN_OR_RETURN(tensor,
                     Tensor::WithoutData(casts[i].dtype, tensor.shape()));
  }
  return absl::OkStatus();
}

absl::StatusOr<EncodedMessage> CastPart(const PartRange& part,
                                        const PushEntry& entry,
                                        const SendCast& cast,
                                        BufferPool& memory) {
  // A stripe may end within an element.
  const uint64_t size = SizeOf(cast.dtype);
  const uint64_t first = part.offset / size;
  const uint64_t end = (part.offset + part.size_bytes + size - 1) / size;
  ASSIGN_OR_RETURN(
      Tensor elements,
      Tensor::WithoutData(cast.dtype, {static_cast<int64_t>(end - first)}));
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   memory.Allocate(elements.size_bytes()));
  elements.SetBuffer(std::move(buffer), 0);
  const absl::Status status = CastElements(
      entry.tensor, cast, first, end - first, elements.mutable_data());
  if (!status.ok()) return OfKey(entry.key, status);
  return EncodePart(part, elements, /*tensor_offset=*/first * size);
}

}  // namespace tensorkv
