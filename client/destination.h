// Memory of the caller for what comes.

#ifndef TENSORKV_CLIENT_DESTINATION_H_
#define TENSORKV_CLIENT_DESTINATION_H_

#include "absl/types/span.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tensorkv {

// Memory of the caller into which one value is received. Where `memory` is
// null, the value comes in memory of the client.
struct Destination {
  DType dtype = DType::kF32;
  Shape shape;
  // Has exactly as many bytes as a tensor of the dtype and shape, aligned to
  // one element.
  absl::Span<char> memory;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_DESTINATION_H_
