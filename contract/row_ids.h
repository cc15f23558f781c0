// Which rows of a key a contribution brings, or a pull reads.

#ifndef TENSORKV_CONTRACT_ROW_IDS_H_
#define TENSORKV_CONTRACT_ROW_IDS_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Indices along a tensor's first dimension, in any order, repeated or not.
// Immutable, thread-safe.
class RowIds final : public RefCounted {
 public:
  // `ids` is i32 or i64 of rank 1, in host memory. Reads all of them.
  // Errors: InvalidArgument for another dtype or rank, or ids without data.
  static absl::StatusOr<RefPtr<const RowIds>> Create(Tensor ids);

  int64_t size() const { return tensor_.num_elements(); }
  // REQUIRES: 0 <= i < size().
  int64_t operator[](int64_t i) const {
    return tensor_.dtype() == DType::kI32 ? At<int32_t>(i) : At<int64_t>(i);
  }

  // Return the lowest and the highest id; 0 and -1 of an empty list, so that no
  // id is out of any range.
  int64_t lowest() const { return lowest_; }
  int64_t highest() const { return highest_; }

  // Returns whether an id is there more than once. The first call reads all
  // ids; the object remembers what it found.
  bool has_repeats() const;

  // Returns the ids as Create got them.
  const Tensor& tensor() const { return tensor_; }

 private:
  explicit RowIds(Tensor ids);

  // Copies the id, which may lie at any address.
  template <typename T>
  T At(int64_t i) const {
    T id;
    std::memcpy(&id, tensor_.data() + i * sizeof(T), sizeof(T));
    return id;
  }

  const Tensor tensor_;
  int64_t lowest_ = 0;
  int64_t highest_ = -1;
  enum class Repeats : uint8_t { kUnknown, kNone, kSome };
  mutable std::atomic<Repeats> repeats_ = Repeats::kUnknown;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_ROW_IDS_H_
