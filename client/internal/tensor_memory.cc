#include "client/internal/tensor_memory.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "tensor/buffer.h"

namespace tensorkv {
namespace {

size_t AlignedBytes(const Tensor& tensor) {
  const size_t bytes = tensor.size_bytes();
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

bool Shares(const Tensor& tensor) {
  return tensor.size_bytes() <= static_cast<int64_t>(kMaxSharingTensorBytes);
}

// Hands out pieces of shared buffers, of which there are just enough.
class SharedBuffers {
 public:
  SharedBuffers(const std::vector<Value>& values, BufferPool& pool)
      : pool_(pool) {
    for (const Value& value : values) {
      if (Shares(value.tensor)) bytes_left_ += AlignedBytes(value.tensor);
    }
  }

  absl::StatusOr<Tensor> Place(const Tensor& tensor) {
    const size_t bytes = AlignedBytes(tensor);
    if (!buffer_ || bytes > buffer_->size_bytes() - used_) {
      RETURN_IF_ERROR(Refill(bytes));
    }
    const size_t offset = std::exchange(used_, used_ + bytes);
    return Tensor::Within(tensor.dtype(), tensor.shape(), buffer_, offset);
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

absl::Status AllocateTensors(std::vector<Value>& values, BufferPool& pool) {
  SharedBuffers shared(values, pool);
  for (Value& value : values) {
    Tensor& tensor = value.tensor;
    if (tensor.size_bytes() == 0) continue;
    if (Shares(tensor)) {
      ASSIGN_OR_RETURN(tensor, shared.Place(tensor));
      continue;
    }
    ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, pool.Allocate(tensor.size_bytes()));
    ASSIGN_OR_RETURN(tensor, Tensor::FromBuffer(tensor.dtype(), tensor.shape(),
                                                std::move(buffer)));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
