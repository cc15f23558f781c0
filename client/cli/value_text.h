// Values as text for people, and as JSON.

#ifndef TENSORKV_CLIENT_CLI_VALUE_TEXT_H_
#define TENSORKV_CLIENT_CLI_VALUE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "contract/requests.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Returns a line for each row of `tensor`, in host memory: its elements along
// the last dimension, blanks between them. Of more than 8 rows, and of more
// than 8 elements in a row, the first 3 and the last 3 with "..." between them.
// Nothing for a tensor without elements.
//
//   2.0 2.0 2.0
//   2.0 2.0 2.0
std::string ValueText(const Tensor& tensor);

// Returns the MessageJson of a Value, whose data is instead the member "values"
// at the end: all elements in row-major order, as ElementText writes them; NaN
// and infinities are the strings "NaN", "Infinity" and "-Infinity", as in
// protobuf's JSON.
std::string ValueJson(absl::string_view key, const Value& value);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_VALUE_TEXT_H_
