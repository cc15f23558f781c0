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

// Elements that somebody else owns, contiguous; where they are (host, device)
// is the owner's knowledge. Aligned to the size of one element at least.
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
  // An f32 tensor of shape [0], without a buffer.
  Tensor() : shape_(Shape::OfValid(kNoElements)) {}

  // An uninitialised tensor in host memory.
  // Errors: InvalidArgument (size overflows) · ResourceExhausted.
  static absl::StatusOr<Tensor> Allocate(DType dtype, Shape shape);

  // A tensor of the bytes in `buffer`.
  // Errors: InvalidArgument if its size is not that of `shape`.
  static absl::StatusOr<Tensor> FromBuffer(DType dtype, Shape shape,
                                           RefPtr<Buffer> buffer);

  // The same, where the size is known to be right.
  static Tensor OfBuffer(DType dtype, const Shape& shape,
                         RefPtr<Buffer> buffer) {
    return Tensor(dtype, shape, std::move(buffer));
  }

  // A tensor whose elements are elsewhere, or yet to come.
  // Errors: InvalidArgument (size overflows).
  static absl::StatusOr<Tensor> WithoutData(DType dtype, Shape shape);

  // A host tensor with every element `value`, rounded to `dtype` (to nearest
  // even) or, for integers, truncated.
  // Errors: InvalidArgument (size overflows; an integer dtype cannot hold the
  // value) · ResourceExhausted.
  static absl::StatusOr<Tensor> Filled(DType dtype, Shape shape, double value);

  // A copy of the bytes at `data`, which are as many as `shape` takes.
  // Errors: those of Allocate.
  static absl::StatusOr<Tensor> CopyOf(DType dtype, Shape shape,
                                       const void* data);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  int64_t size_bytes() const { return num_elements() * SizeOf(dtype_); }
  const RefPtr<Buffer>& buffer() const { return buffer_; }

  // Whether it has a buffer; one without elements may have none.
  bool has_data() const { return static_cast<bool>(buffer_); }
  // Whether it takes all of its buffer.
  bool fills_buffer() const {
    return buffer_ &&
           buffer_->size_bytes() == static_cast<size_t>(size_bytes());
  }

  // Gives it the bytes of `buffer` from `offset` on, of which there are enough:
  // many small tensors share one buffer.
  void SetBuffer(RefPtr<Buffer> buffer, size_t offset) {
    buffer_ = std::move(buffer);
    offset_ = offset;
  }

  // Gives up the buffer; what stays is a tensor without data.
  RefPtr<Buffer> TakeBuffer() {
    offset_ = 0;
    return std::move(buffer_);
  }

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

  // The elements as T. REQUIRES: T has the size of the dtype and is its native
  // type (float for f32, int8_t for i8, ...; uint16_t for f16 and bf16,
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

  // dtype and shape, as "f32[2,3]".
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

// "f32[2,3]".
std::string Description(DType dtype, const Shape& shape);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_TENSOR_H_
