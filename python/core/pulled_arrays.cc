#include "python/core/pulled_arrays.h"

#include <string>

#include "base/ref_counted.h"
#include "python/core/numpy_api.h"
#include "tensor/buffer.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

// Returns what the arrays within a buffer belong to.
py::capsule OwnerOf(const RefPtr<Buffer>& buffer) {
  return py::capsule(new RefPtr<Buffer>(buffer), [](void* owned) {
    delete static_cast<RefPtr<Buffer>*>(owned);
  });
}

// Returns an array of these dimensions with the tensor's memory.
py::object ArrayOf(Tensor& tensor, DType dtype,
                   absl::Span<const int64_t> dimensions, py::handle owner) {
  // An array of no elements needs memory all the same.
  static char no_elements;
  if (!tensor.has_data()) return NewArray(dtype, dimensions, &no_elements, {});
  return NewArray(dtype, dimensions, tensor.mutable_data(), owner);
}

}  // namespace

py::list ArraysOf(std::vector<Value> values) {
  py::list arrays(values.size());
  const Buffer* buffer = nullptr;
  py::object owner;
  for (size_t i = 0; i < values.size(); ++i) {
    Tensor& tensor = values[i].tensor;
    // Values that share a buffer follow one another.
    if (tensor.has_data() && tensor.buffer().get() != buffer) {
      buffer = tensor.buffer().get();
      owner = OwnerOf(tensor.buffer());
    }
    arrays[i] =
        ArrayOf(tensor, tensor.dtype(), tensor.shape().dimensions(), owner);
  }
  return arrays;
}

py::list MemoryOf(std::vector<Value> values) {
  py::list memory(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Tensor& tensor = values[i].tensor;
    const auto size_bytes = static_cast<int64_t>(tensor.size_bytes());
    memory[i] = py::make_tuple(
        ArrayOf(tensor, DType::kU8, {&size_bytes, 1}, OwnerOf(tensor.buffer())),
        std::string(NameOf(tensor.dtype())), values[i].version);
  }
  return memory;
}

}  // namespace tensorkv::python
