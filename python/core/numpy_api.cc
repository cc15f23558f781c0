#include "python/core/numpy_api.h"

#include <array>
#include <iterator>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "python/core/status_error.h"
#include "tensor/shape.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

constexpr int kContiguous = 0x0001;
constexpr int kAligned = 0x0100;
constexpr int kWritable = 0x0400;

// How every array begins, from NumPy 1.7 on, in NumPy 2 too.
struct ArrayFields {
  PyObject header;
  void* data;
  int rank;
  const Py_ssize_t* dimensions;
  const Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};

using NewFromDescr = PyObject*(PyTypeObject*, PyObject*, int, const Py_ssize_t*,
                               const Py_ssize_t*, void*, int, PyObject*);
using SetBaseObject = int(PyObject*, PyObject*);

// Where they are in the table of the API, in the same versions.
constexpr int kArrayType = 2;
constexpr int kNewFromDescr = 94;
constexpr int kSetBaseObject = 282;

struct NumPy {
  PyTypeObject* array_type = nullptr;
  NewFromDescr* new_from_descr = nullptr;
  SetBaseObject* set_base_object = nullptr;
  // By DType; null for those that nobody has defined. They are never released:
  // the module is not unloaded.
  std::array<PyObject*, std::size(kDTypeTraits)> dtypes = {};
};

// Guarded by the GIL.
NumPy numpy;

void UseNumPy(const py::capsule& api, const py::dict& dtypes) {
  void** const table = api.get_pointer<void*>();
  numpy.array_type = static_cast<PyTypeObject*>(table[kArrayType]);
  numpy.new_from_descr = reinterpret_cast<NewFromDescr*>(table[kNewFromDescr]);
  numpy.set_base_object =
      reinterpret_cast<SetBaseObject*>(table[kSetBaseObject]);
  for (const auto& [name, dtype] : dtypes) {
    const DType index = ValueOrThrow(ParseDType(name.cast<std::string>()));
    numpy.dtypes[static_cast<int>(index)] = dtype.inc_ref().ptr();
  }
}

PyObject* NumPysDType(DType dtype) {
  PyObject* const found = numpy.dtypes[static_cast<int>(dtype)];
  if (found != nullptr) return found;
  throw StatusError(absl::UnimplementedError(absl::StrCat(
      "the value is of dtype ", NameOf(dtype),
      ": expected the package ml_dtypes with it, which is not installed")));
}

}  // namespace

py::object NewArray(DType dtype, absl::Span<const int64_t> dimensions,
                    void* data, py::handle owner) {
  const absl::InlinedVector<Py_ssize_t, Shape::kMaxRank> sizes(
      dimensions.begin(), dimensions.end());
  const py::handle numpys = NumPysDType(dtype);
  // The function takes a reference to the dtype, whatever it returns.
  const auto array = py::reinterpret_steal<py::object>(numpy.new_from_descr(
      numpy.array_type, numpys.inc_ref().ptr(), static_cast<int>(sizes.size()),
      sizes.data(), /*strides=*/nullptr, data,
      kContiguous | kAligned | kWritable, /*obj=*/nullptr));
  if (!array) throw py::error_already_set();
  // This one does the same to the owner.
  if (owner && numpy.set_base_object(array.ptr(), owner.inc_ref().ptr()) != 0) {
    throw py::error_already_set();
  }
  return array;
}

std::optional<ArrayView> ArrayViewOf(py::handle object) {
  if (Py_TYPE(object.ptr()) != numpy.array_type) return std::nullopt;
  const auto& array = *reinterpret_cast<const ArrayFields*>(object.ptr());
  constexpr int kNeeded = kContiguous | kAligned;
  if ((array.flags & kNeeded) != kNeeded) return std::nullopt;
  for (const DType dtype : kAllDTypes) {
    if (array.dtype != numpy.dtypes[static_cast<int>(dtype)]) continue;
    return ArrayView{
        .object = object,
        .dtype = dtype,
        .dimensions = {array.dimensions, static_cast<size_t>(array.rank)},
        .data = array.data,
        .is_writable = (array.flags & kWritable) != 0};
  }
  return std::nullopt;
}

void RegisterNumPy(py::module_& module) {
  using namespace py::literals;
  module.def("use_numpy", &UseNumPy, "api"_a, "dtypes"_a);
}

}  // namespace tensorkv::python
