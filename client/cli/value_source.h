// Where the tensors of init, push and pushpull come from.

#ifndef TENSORKV_CLIENT_CLI_VALUE_SOURCE_H_
#define TENSORKV_CLIENT_CLI_VALUE_SOURCE_H_

#include <istream>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {

// The flags as they were given; nothing where they were not.
struct ValueFlags {
  std::optional<std::string> shape;  // "2,3", "[2,3]", "[]"
  std::optional<std::string> dtype;
  std::optional<std::string> fill;
  std::optional<std::string> npy;  // a path, or "-" for the standard input
};

// The values that flags describe: one tensor from a .npy file, or one number
// in every element, whose dtype and shape may be left to each key. A value
// type, const access is thread-safe.
class ValueSource {
 public:
  // Reads the .npy file, if there is one. `in` is the standard input.
  // Errors, all of them UsageError: no value or two, a flag that cannot be
  // read, a file that is missing or no .npy file.
  static absl::StatusOr<ValueSource> Create(const ValueFlags& flags,
                                            std::istream& in);

  // Returns what the flags say; nothing where it is left to the key.
  const std::optional<DType>& dtype() const { return dtype_; }
  const std::optional<Shape>& shape() const { return shape_; }

  // Returns the tensor for a key that takes `dtype` and `shape`; of these, what
  // the flags say counts more. Calls with the same outcome share memory for
  // .npy. Errors: UsageError if the dtype cannot hold the number ·
  // ResourceExhausted.
  absl::StatusOr<Tensor> Make(DType dtype, const Shape& shape) const;

 private:
  explicit ValueSource(Tensor tensor)
      : dtype_(tensor.dtype()),
        shape_(tensor.shape()),
        tensor_(std::move(tensor)) {}
  ValueSource(std::optional<DType> dtype, std::optional<Shape> shape,
              double fill)
      : dtype_(dtype), shape_(std::move(shape)), fill_(fill) {}

  static absl::StatusOr<ValueSource> FromNpy(const ValueFlags& flags,
                                             std::istream& in);
  static absl::StatusOr<ValueSource> FromFill(const ValueFlags& flags);

  std::optional<DType> dtype_;
  std::optional<Shape> shape_;
  std::optional<Tensor> tensor_;
  double fill_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_VALUE_SOURCE_H_
