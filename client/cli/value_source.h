// Where the tensors of init, push, push_pull and set_state come from.

#ifndef TENSORKV_CLIENT_CLI_VALUE_SOURCE_H_
#define TENSORKV_CLIENT_CLI_VALUE_SOURCE_H_

#include <istream>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {

// The flags that were given.
struct ValueFlags {
  std::optional<Shape> shape;
  std::optional<DType> dtype;
  std::optional<double> fill;
  std::optional<std::string> npy;  // a path, or "-" for the standard input
};

// Reads "2,3", "[2,3]" or "[]". Errors: InvalidArgument.
absl::StatusOr<Shape> ParseShape(absl::string_view text);

// Reads a number. Errors: InvalidArgument also for one that no double holds.
absl::StatusOr<double> ParseFill(absl::string_view text);

// The values that flags describe: one tensor from a .npy file, or one number
// in every element, whose dtype and shape may be left to each key. A value
// type, const access is thread-safe.
class ValueSource {
 public:
  // Reads the .npy file, if there is one. `in` is the standard input.
  // Errors, all of them UsageError: no value or two, a file that is missing or
  // no .npy file.
  static absl::StatusOr<ValueSource> Create(ValueFlags flags, std::istream& in);

  // Returns what the flags say; nothing where it is left to the key.
  const std::optional<DType>& dtype() const { return flags_.dtype; }
  const std::optional<Shape>& shape() const { return flags_.shape; }

  // Returns the tensor for a key that takes `dtype` and `shape`; of these, what
  // the flags say counts more. Calls share the memory of a .npy file.
  // Errors: UsageError if the dtype cannot hold the number · ResourceExhausted.
  absl::StatusOr<Tensor> Make(DType dtype, const Shape& shape) const;

 private:
  ValueSource(ValueFlags flags, std::optional<Tensor> tensor)
      : flags_(std::move(flags)), tensor_(std::move(tensor)) {}

  ValueFlags flags_;
  std::optional<Tensor> tensor_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_VALUE_SOURCE_H_
