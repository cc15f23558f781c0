#include "python/core/pulled_arrays.h"

#include <string>

#include "base/ref_counted.h"
#include "python/core/numpy_api.h"
#include "tensor/buffer.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

// What the arrays within a buffer belong to.
py::capsule OwnerOf(const RefPtr<Buffer>& buffer) {
  return py::capsule(new RefPtr<Buffer>(buffer), [](void* owned) {
    delete static_cast<RefPtr<Buffer>*>(owned);
  });
}

}  // namespace

py::list ArraysOf(std::vector<Value> values) {
  // An array of no elements needs memory all the same.
  static char no_elements;
  py::list arrays(values.size());
  const Buffer* buffer = nullptr;
  py::object owner;
  for (size_t i = 0; i < values.size(); ++i) {
    Tensor& tensor = values[i].tensor;
    if (!tensor.has_data()) {
      arrays[i] = NewArray(tensor.dtype(), tensor.shape().dimensions(),
                           &no_elements, /*owner=*/{});
      continue;
    }
    // Values that share a buffer follow one another.
    if (tensor.buffer().get() != buffer) {
      buffer = tensor.buffer().get();
      owner = OwnerOf(tensor.buffer());
    }
    arrays[i] = NewArray(tensor.dtype(), tensor.shape().dimensions(),
                         tensor.mutable_data(), owner);
  }
  return arrays;
}

py::buffer_info PulledArray::buffer() {
  // Dtypes that the buffer protocol does not know are integers of their size.
  static constexpr const char* kFormats[] = {"B", "f", "d", "e", "H", "B",
                                             "B", "b", "B", "h", "i", "q",
                                             "?", "H", "I", "Q"};
  Tensor& tensor = value_.tensor;
  const auto item_size = static_cast<py::ssize_t>(SizeOf(tensor.dtype()));
  const absl::Span<const int64_t> dimensions = tensor.shape().dimensions();
  std::vector<py::ssize_t> shape(dimensions.begin(), dimensions.end());
  std::vector<py::ssize_t> strides(shape.size(), item_size);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  const auto rank = static_cast<py::ssize_t>(shape.size());
  static char no_elements;
  void* data = tensor.mutable_data();
  return py::buffer_info(data != nullptr ? data : &no_elements, item_size,
                         kFormats[static_cast<int>(tensor.dtype())], rank,
                         std::move(shape), std::move(strides));
}

void PulledArray::Register(py::module_& module) {
  py::class_<PulledArray>(module, "PulledArray", py::buffer_protocol())
      .def_buffer(&PulledArray::buffer)
      .def_property_readonly(
          "version", [](const PulledArray& a) { return a.value_.version; })
      .def_property_readonly("dtype", [](const PulledArray& a) {
        return std::string(NameOf(a.value_.tensor.dtype()));
      });
}

}  // namespace tensorkv::python
