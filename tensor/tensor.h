// Dense tensors that own or view their elements.

#ifndef TENSORKV_TENSOR_TENSOR_H_
#define TENSORKV_TENSOR_TENSOR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tensorkv {

// Contiguous elements that another object owns, in memory of the host or of a
// device: only the owner knows which. Aligned to the size of one element at
// least, unless the user of the view allows any address.
struct TensorView {
  DType dtype = DType::kF32;
  int64_t num_elements = 0;
  const void* data = nullptr;

  size_t size_bytes() const { return num_elements * SizeOf(dtype); }
};

struct MutableTensorView {
  DType dtype = DType::kF32;
  int64_t num_elements = 0;
  void* data = nullptr;

  operator TensorView() const { return {dtype, num_elements, data}; }
  size_t size_bytes() const { return num_elements * SizeOf(dtype); }
};

// dtype, shape and a shared buffer of row-major little-endian elements. A
// value type: copying shares the buffer, it does not copy elements.
class Tensor {
 public:
  // Makes an f32 tensor of shape [0], without a buffer.
  Tensor() : shape_(Shape::OfValid(kNoElements)) {}

  // Returns an uninitialised tensor in host memory.
  // Errors: InvalidArgument (size overflows) · ResourceExhausted.
  static absl::StatusOr<Tensor> Allocate(DType dtype, Shape shape);

  // Returns a tensor of the bytes in `buffer`, which it shares.
  // Errors: InvalidArgument if the buffer's size is not that of the tensor.
  static absl::StatusOr<Tensor> FromBuffer(DType dtype, Shape shape,
                                           RefPtr<Buffer> buffer);

  // Returns a tensor of the bytes in `buffer`, without checking the size.
  // REQUIRES: FromBuffer would accept it, or `buffer` is null: then the tensor
  // has no data.
  static Tensor Unchecked(DType dtype, const Shape& shape,
                          RefPtr<Buffer> buffer) {
    return Tensor(dtype, shape, std::move(buffer));
  }

  // Returns a tensor of dtype and shape alone: its elements are elsewhere, or
  // come later (SetBuffer).
  // Errors: InvalidArgument (size overflows).
  static absl::StatusOr<Tensor> WithoutData(DType dtype, Shape shape);

  // Returns a host tensor with every element `value`, rounded to `dtype` (to
  // nearest even) or, for integers, truncated. A bool is whether `value` is not
  // 0.
  // Errors: InvalidArgument (size overflows; an integer dtype cannot hold the
  // value) · ResourceExhausted.
  static absl::StatusOr<Tensor> Filled(DType dtype, Shape shape, double value);

  // Returns a tensor in host memory with a copy of the bytes at `data`, host
  // memory with as many bytes as the tensor takes.
  // Errors: those of Allocate.
  static absl::StatusOr<Tensor> CopyOf(DType dtype, Shape shape,
                                       const void* data);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  int64_t size_bytes() const { return num_elements() * SizeOf(dtype_); }
  const RefPtr<Buffer>& buffer() const { return buffer_; }

  // Returns whether the tensor has a buffer; one without elements may have
  // none.
  bool has_data() const { return static_cast<bool>(buffer_); }
  // Returns whether the tensor has a buffer and takes all of it.
  bool fills_buffer() const {
    return buffer_ &&
           buffer_->size_bytes() == static_cast<size_t>(size_bytes());
  }

  // Makes the bytes of `buffer` from `offset` (in bytes) on the tensor's
  // elements: many small tensors share one buffer. REQUIRES: there are enough.
  void SetBuffer(RefPtr<Buffer> buffer, size_t offset) {
    buffer_ = std::move(buffer);
    offset_ = offset;
  }

  // Returns the buffer, or null; dtype and shape stay, without data.
  RefPtr<Buffer> TakeBuffer() {
    offset_ = 0;
    return std::move(buffer_);
  }

  // Returns the first byte of the elements, in memory of the host or the device
  // that the buffer is of; null without a buffer.
  const char* data() const {
    return buffer_ ? buffer_->data() + offset_ : nullptr;
  }
  // REQUIRES: nobody else reads or writes the tensor's part of the buffer.
  char* mutable_data() {
    return buffer_ ? buffer_->mutable_data() + offset_ : nullptr;
  }

  TensorView view() const { return {dtype_, num_elements(), data()}; }
  MutableTensorView mutable_view() {
    return {dtype_, num_elements(), mutable_data()};
  }

  // Returns the elements as T. REQUIRES: T has the size of the dtype and is its
  // native type (float for f32, int8_t for i8, ...; uint16_t for f16 and bf16,
  // uint8_t for f8 and bool), host memory.
  template <typename T>
  absl::Span<const T> elements() const {
    return absl::MakeConstSpan(reinterpret_cast<const T*>(data()),
                               static_cast<size_t>(num_elements()));
  }
  template <typename T>
  absl::Span<T> mutable_elements() {
    return absl::MakeSpan(reinterpret_cast<T*>(mutable_data()),
                          static_cast<size_t>(num_elements()));
  }

  // Returns dtype and shape, as "f32[2,3]".
  std::string Description() const;

 private:
  Tensor(DType dtype, Shape shape, RefPtr<Buffer> buffer)
      : dtype_(dtype), shape_(std::move(shape)), buffer_(std::move(buffer)) {}

  static constexpr int64_t kNoElements[] = {0};

  DType dtype_ = DType::kF32;
  Shape shape_;
  RefPtr<Buffer> buffer_;
  size_t offset_ = 0;
};

// Returns "f32[2,3]".
std::string Description(DType dtype, const Shape& shape);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_TENSOR_H_
