// Makes a tensor of another one and of what has changed.

#ifndef TENSORKV_TENSOR_DELTA_DELTA_DECODER_H_
#define TENSORKV_TENSOR_DELTA_DELTA_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/delta/delta_encodings.h"
#include "tensor/delta/delta_scratch.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Decodes a delta block by block. Whatever the delta has, nothing is read or
// written outside of it and of both tensors; that the result is the right one,
// only its digest says.
class DeltaDecoder {
 public:
  // Finds the blocks. `delta` and `from`, host memory, outlive the decoder and
  // stay as they are. Errors: InvalidArgument (malformed).
  static absl::StatusOr<DeltaDecoder> Create(absl::string_view delta,
                                             TensorView from);

  size_t num_blocks() const { return blocks_.size(); }
  // Writes the block of the tensor that begins at `to`, which may be that of
  // `from`. Threads may decode different blocks at a time. Errors:
  // InvalidArgument (malformed); the block may then be anything.
  absl::Status DecodeBlock(size_t index, char* to, DeltaScratch& scratch) const;

 private:
  struct Block {
    DeltaEncoding encoding;
    absl::string_view bytes;
  };

  explicit DeltaDecoder(TensorView from) : from_(from) {}

  TensorView from_;
  std::vector<Block> blocks_;
};

// Decodes `delta` into `to`, host memory of the dtype and size of `from`, and
// checks that the result has this digest. Errors: InvalidArgument (malformed) ·
// DataLoss (another digest); `to` may then be anything.
absl::Status DecodeDelta(absl::string_view delta, uint64_t digest,
                         TensorView from, MutableTensorView to);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_DELTA_DELTA_DECODER_H_
