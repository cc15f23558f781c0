// Memory of the caller for what comes.

#ifndef TENSORKV_CLIENT_DESTINATION_H_
#define TENSORKV_CLIENT_DESTINATION_H_

#include "absl/types/span.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tensorkv {

// Memory that one value is received into; without memory, none of the
// caller's: the value comes as it would have otherwise.
struct Destination {
  DType dtype = DType::kF32;
  Shape shape;
  // Takes as many bytes as dtype and shape do, aligned to one element.
  absl::Span<char> memory;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_DESTINATION_H_
