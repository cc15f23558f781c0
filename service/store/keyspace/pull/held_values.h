// The values that the caller of a pull holds, as it shows by their tokens.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_HELD_VALUES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_HELD_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "contract/data_requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/delta_cache.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "tensor/delta/delta_encodings.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// What a pull finds of the values that its caller holds. Only Look is called
// with the mutex held, and does no more than must be done there.
class HeldValues {
 public:
  // A value from which a delta is to be sent to that with `index` in the reply.
  struct Base {
    size_t index = 0;
    Tensor held;  // as it is stored
    DeltaId id;
  };

  // REQUIRES: the request asks for changes.
  HeldValues(const NamespaceState& state, const PullRequest& request);

  // Returns how many bytes it takes until the call ends.
  static uint64_t SizeBytes(const PullRequest& request) {
    return request.changes ? request.entries.size() * sizeof(Entry) : 0;
  }

  // Says what the values are converted to, if not to what the request says.
  void Convert(DType dtype) { dtype_ = dtype; }
  // Begins to look at all entries again.
  void Clear() { bases_.clear(); }
  // Looks for what the caller holds of the entry, which reads `value`: its key
  // had that at `revision`, and has it now if `is_present`. REQUIRES: the mutex
  // is held.
  void Look(const NamespaceState& state, absl::string_view key, size_t index,
            const Value& value, uint64_t revision, bool is_present);
  // Gives the values of `reply` tokens, and empties those that the caller
  // holds. Returns the values from which it may get deltas.
  std::vector<Base> Name(const PullRequest& request, PullReply& reply) &&;

 private:
  struct Shown {
    Version version = 0;
    uint64_t revision = 0;
    DType dtype = DType::kUnknown;
  };
  struct Entry {
    uint64_t key_hash = 0;
    uint64_t revision = 0;
    // Nothing unless the caller shows a token of that key.
    std::optional<Shown> shown;
  };
  struct Former {
    size_t index = 0;
    Tensor held;
  };

  // Returns the dtype of the value as it is converted.
  DType DTypeOf(const Value& value) const {
    return CastOf(dtype_, value.tensor.dtype());
  }

  const uint64_t incarnation_;
  DType dtype_;
  DeltaEncodings encodings_ = {};
  bool wants_deltas_ = false;
  std::vector<Entry> entries_;
  std::vector<Former> bases_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_HELD_VALUES_H_
