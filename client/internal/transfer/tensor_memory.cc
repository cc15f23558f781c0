#include "client/internal/transfer/tensor_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "client/internal/transfer/delivery.h"
#include "tensor/buffer.h"

namespace tensorkv {
namespace {

size_t Aligned(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Hands out pieces of shared buffers, of which there are just enough.
class SharedBuffers {
 public:
  SharedBuffers(absl::Span<const Value> values, BufferPool& pool)
      : pool_(pool) {
    for (const Value& value : values) {
      if (value.tensor.has_data()) continue;
      const size_t bytes = value.tensor.size_bytes();
      if (bytes <= kMaxSharingTensorBytes) bytes_left_ += Aligned(bytes);
    }
  }

  absl::Status Place(size_t size_bytes, Tensor& tensor) {
    const size_t bytes = Aligned(size_bytes);
    if (!buffer_ || bytes > buffer_->size_bytes() - used_) {
      RETURN_IF_ERROR(Refill(bytes));
    }
    tensor.SetBuffer(buffer_, std::exchange(used_, used_ + bytes));
    return absl::OkStatus();
  }

 private:
  absl::Status Refill(size_t least_bytes) {
    const size_t bytes = std::max(
        least_bytes, std::min<size_t>(bytes_left_, kSharedBufferBytes));
    ASSIGN_OR_RETURN(buffer_, pool_.Allocate(bytes));
    used_ = 0;
    bytes_left_ -= std::min<size_t>(bytes_left_, bytes);
    return absl::OkStatus();
  }

  BufferPool& pool_;
  size_t bytes_left_ = 0;
  RefPtr<Buffer> buffer_;
  size_t used_ = 0;
};

}  // namespace

absl::Status AllocateTensors(absl::Span<Value> values, BufferPool& pool,
                             absl::Span<const Destination> destinations) {
  PlaceInto(destinations, values);
  SharedBuffers shared(values, pool);
  for (Value& value : values) {
    Tensor& tensor = value.tensor;
    const size_t bytes = tensor.size_bytes();
    if (bytes == 0 || tensor.has_data()) continue;
    if (bytes <= kMaxSharingTensorBytes) {
      RETURN_IF_ERROR(shared.Place(bytes, tensor));
      continue;
    }
    ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, pool.Allocate(bytes));
    tensor.SetBuffer(std::move(buffer), 0);
  }
  return absl::OkStatus();
}

absl::Status CopyTensors(std::vector<PushEntry>& entries, BufferPool& pool) {
  std::vector<PushEntry*> copied;
  std::vector<Value> copies;
  for (PushEntry& entry : entries) {
    if (entry.encoding || !entry.tensor.has_data()) continue;
    ASSIGN_OR_RETURN(Tensor copy, Tensor::WithoutData(entry.tensor.dtype(),
                                                      entry.tensor.shape()));
    copied.push_back(&entry);
    copies.push_back({.tensor = std::move(copy)});
  }
  RETURN_IF_ERROR(AllocateTensors(absl::MakeSpan(copies), pool));
  for (size_t i = 0; i < copies.size(); ++i) {
    Tensor& tensor = copied[i]->tensor;
    if (tensor.size_bytes() > 0) {
      std::memcpy(copies[i].tensor.mutable_data(), tensor.data(),
                  tensor.size_bytes());
    }
    tensor = std::move(copies[i].tensor);
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
