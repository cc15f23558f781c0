// Says what the bytes of an encoded contribution decode to, and how.

#ifndef TENSORKV_CONTRACT_ENCODING_H_
#define TENSORKV_CONTRACT_ENCODING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "tensor/dtype.h"
#include "tensor/packing.h"
#include "tensor/shape.h"

namespace tensorkv {

// The encoding of one payload: a packing whose parameters make sense, and the
// dtype and shape of what is packed. An encoded contribution is its payload, a
// u8 tensor of rank 1, with an Encoding beside it. Immutable.
class Encoding final : public RefCounted {
 public:
  // `packing.num_elements` is set from the shape.
  // Errors: InvalidArgument for a dtype that the kind does not take, a
  // parameter out of its range, or a payload of 2^62 bytes and more, all
  // ENCODING_MALFORMED.
  static absl::StatusOr<RefPtr<const Encoding>> Create(Packing packing,
                                                       DType dtype,
                                                       const Shape& shape);

  const Packing& packing() const { return packing_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  // Returns the length that every payload of this encoding has.
  int64_t payload_bytes() const { return payload_bytes_; }

  // Checks that the payload_bytes() bytes at `payload` have what the encoding
  // asks for: indices that rise and stay in range, scales that are positive and
  // finite. Takes time in proportion to the number of indices and scales.
  // Errors: InvalidArgument (ENCODING_MALFORMED).
  absl::Status CheckPayload(const char* payload) const;

  friend bool operator==(const Encoding& a, const Encoding& b) {
    return a.packing_ == b.packing_ && a.dtype_ == b.dtype_ &&
           a.shape_ == b.shape_;
  }

 private:
  Encoding(const Packing& packing, DType dtype, const Shape& shape,
           int64_t payload_bytes)
      : packing_(packing),
        dtype_(dtype),
        shape_(shape),
        payload_bytes_(payload_bytes) {}

  const Packing packing_;
  const DType dtype_;
  const Shape shape_;
  const int64_t payload_bytes_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_ENCODING_H_
