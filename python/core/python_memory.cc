#include "python/core/python_memory.h"

#include <bit>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "python/core/status_error.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

static_assert(std::endian::native == std::endian::little,
              "arrays are sent as they are in memory");

// Exports that ended on threads without the GIL. It is never destroyed: such
// threads may outlive the interpreter.
struct Ended {
  std::mutex mutex;
  std::list<HeldObjects> held;
};

Ended& TheEnded() {
  static Ended& ended = *new Ended;
  return ended;
}

void Release(HeldObjects& held) {
  for (Py_buffer& buffer : held.buffers) PyBuffer_Release(&buffer);
  for (PyObject* const array : held.arrays) Py_DECREF(array);
}

int ReleaseEnded(void*) {
  std::list<HeldObjects> ended;
  {
    const std::lock_guard lock(TheEnded().mutex);
    ended.swap(TheEnded().held);
  }
  for (HeldObjects& held : ended) Release(held);
  return 0;
}

void ReleaseLater(HeldObjects held) {
  const std::lock_guard lock(TheEnded().mutex);
  TheEnded().held.push_back(std::move(held));
  // Where Python's queue is full, calls that wait there release these too, and
  // where its main thread waits in a lock, the next Exports does.
  (void)Py_AddPendingCall(ReleaseEnded, nullptr);
}

absl::Status NotTaken(absl::string_view key, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("array of key \"", key, "\": ", problem));
}

// Returns the dtype of native elements of a format of Python's module struct,
// which is one letter; kUnknown if there is none.
DType DTypeOfLetter(char letter, Py_ssize_t item_size) {
  const auto sized = [item_size](DType two, DType four, DType eight) {
    return item_size == 2   ? two
           : item_size == 4 ? four
           : item_size == 8 ? eight
                            : DType::kUnknown;
  };
  switch (letter) {
    case 'e':
      return DType::kF16;
    case 'f':
      return DType::kF32;
    case 'd':
      return DType::kF64;
    case '?':
      return DType::kBool;
    case 'b':
      return DType::kI8;
    case 'B':
      return DType::kU8;
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return sized(DType::kI16, DType::kI32, DType::kI64);
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return sized(DType::kU16, DType::kU32, DType::kU64);
    default:
      return DType::kUnknown;
  }
}

DType DTypeOfFormat(absl::string_view format, Py_ssize_t item_size,
                    absl::string_view key) {
  absl::string_view letter = format;
  if (letter.size() == 2 && absl::StrContains("@=<", letter[0])) {
    letter.remove_prefix(1);
  }
  const DType dtype = letter.size() == 1 ? DTypeOfLetter(letter[0], item_size)
                                         : DType::kUnknown;
  if (dtype != DType::kUnknown) return dtype;
  if (!format.empty() && absl::StrContains(">!", format[0])) {
    throw StatusError(NotTaken(
        key,
        "expected little-endian elements, got big-endian ones; convert "
        "them, as with array.astype(array.dtype.newbyteorder('<'))"));
  }
  throw StatusError(NotTaken(
      key, absl::StrCat("expected elements of a numeric dtype or bool, got "
                        "the format '",
                        format, "'")));
}

// An object with the buffer protocol and, if it was named, its dtype.
struct NamedArray {
  py::handle memory;
  DType dtype = DType::kUnknown;
};

// Any other tuple is taken for memory, which it is not.
NamedArray Named(py::handle array) {
  PyObject* const pair = array.ptr();
  if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2 ||
      !PyUnicode_Check(PyTuple_GET_ITEM(pair, 1))) {
    return {.memory = array};
  }
  const py::handle name = PyTuple_GET_ITEM(pair, 1);
  return {.memory = PyTuple_GET_ITEM(pair, 0),
          .dtype = ValueOrThrow(ParseDType(name.cast<std::string>()))};
}

// What one export holds.
struct Layout {
  DType dtype;
  Shape shape;
  void* data;
  size_t size_bytes;
};

Shape ShapeOf(absl::Span<const Py_ssize_t> dimensions) {
  return ValueOrThrow(
      Shape::Create(absl::InlinedVector<int64_t, Shape::kMaxRank>(
          dimensions.begin(), dimensions.end())));
}

Layout LayoutOf(py::handle array, bool is_written, absl::string_view key,
                Exports& exports) {
  // An export costs more than the elements of a small array.
  if (const std::optional<ArrayView> plain = ArrayViewOf(array);
      plain && (plain->is_writable || !is_written)) {
    exports.Add(*plain);
    const Shape shape = ShapeOf(plain->dimensions);
    return {.dtype = plain->dtype,
            .shape = shape,
            .data = plain->data,
            .size_bytes = shape.num_elements() * SizeOf(plain->dtype)};
  }
  const NamedArray named = Named(array);
  const Py_buffer& view = exports.Add(named.memory, is_written, key);
  const DType dtype =
      named.dtype != DType::kUnknown
          ? named.dtype
          : DTypeOfFormat(view.format != nullptr ? view.format : "B",
                          view.itemsize, key);
  if (static_cast<size_t>(view.itemsize) != SizeOf(dtype)) {
    throw StatusError(
        NotTaken(key, absl::StrCat("expected elements of ", SizeOf(dtype),
                                   " bytes, got ", view.itemsize)));
  }
  const absl::Span<const Py_ssize_t> dimensions(view.shape, view.ndim);
  return {.dtype = dtype,
          .shape = ShapeOf(dimensions),
          .data = view.buf,
          .size_bytes = static_cast<size_t>(view.len)};
}

}  // namespace

Exports::Exports() { ReleaseEnded(nullptr); }

Exports::~Exports() {
  if (held_.is_empty() || !Py_IsInitialized()) return;
  if (PyGILState_Check()) {
    Release(held_);
  } else {
    ReleaseLater(std::move(held_));
  }
}

void Exports::Add(const ArrayView& array) {
  held_.arrays.push_back(array.object.inc_ref().ptr());
}

const Py_buffer& Exports::Add(py::handle object, bool is_written,
                              absl::string_view key) {
  if (!PyObject_CheckBuffer(object.ptr())) {
    throw py::type_error(absl::StrCat(
        "array of key \"", key,
        "\": expected an array with the buffer protocol or DLPack, got ",
        Py_TYPE(object.ptr())->tp_name));
  }
  Py_buffer& view = held_.buffers.emplace_back();
  const int flags = PyBUF_FORMAT | PyBUF_STRIDES;
  if (PyObject_GetBuffer(object.ptr(), &view, flags) != 0) {
    held_.buffers.pop_back();
    const py::error_already_set error;
    if (!error.matches(PyExc_Exception)) throw error;
    throw StatusError(
        NotTaken(key, absl::StrCat("its memory cannot be had: ",
                                   std::string(py::str(error.value())))));
  }
  absl::string_view problem;
  if (!PyBuffer_IsContiguous(&view, 'C')) {
    problem = "expected C-contiguous elements; see numpy.ascontiguousarray";
  } else if (is_written && view.readonly) {
    problem = "expected memory that may be written, got read-only memory";
  }
  if (!problem.empty()) {
    PyBuffer_Release(&view);
    held_.buffers.pop_back();
    throw StatusError(NotTaken(key, problem));
  }
  return view;
}

Tensor TensorOf(py::handle array, absl::string_view key,
                const SharedExports& exports) {
  const Layout layout = LayoutOf(array, /*is_written=*/false, key, *exports);
  auto buffer = MakeRefCounted<AdoptedBuffer>(layout.data, layout.size_bytes,
                                              [exports] {});
  return ValueOrThrow(
      Tensor::FromBuffer(layout.dtype, layout.shape, std::move(buffer)));
}

Destination DestinationOf(py::handle array, absl::string_view key,
                          Exports& exports) {
  const Layout layout = LayoutOf(array, /*is_written=*/true, key, exports);
  return {.dtype = layout.dtype,
          .shape = layout.shape,
          .memory = {static_cast<char*>(layout.data), layout.size_bytes}};
}

}  // namespace tensorkv::python
