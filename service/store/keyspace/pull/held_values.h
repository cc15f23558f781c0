// Pulls that ask for what has changed since what their callers hold.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_HELD_VALUES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_HELD_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contract/data_requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/delta_cache.h"
#include "service/store/keyspace/pull/value_token.h"
#include "tensor/delta/delta_encodings.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// What a pull has found of the values that its caller holds.
class HeldValues {
 public:
  // What a value has changed from.
  struct Base {
    size_t index = 0;  // of the value in the reply
    Tensor held;       // as it is stored
    DeltaId id;
  };

  // REQUIRES: the request asks for changes.
  explicit HeldValues(const PullRequest& request);

  // Gives a token to the last value of `reply`, which its key had at
  // `revision`; empties the value if the caller holds it, or keeps what it
  // holds, if that is there yet. REQUIRES: the mutex is held.
  void Add(const NamespaceState& state, const PullEntry& entry,
           uint64_t revision, PullReply& reply);

  std::vector<Base> TakeBases() && { return std::move(bases_); }

 private:
  // Returns what the key had, or has, under that token; without data if it is
  // not there any more.
  static Tensor FindHeld(const NamespaceState& state, absl::string_view key,
                         const ValueToken& token);

  DeltaEncodings encodings_ = {};
  bool wants_deltas_ = false;
  DType dtype_ = DType::kUnknown;
  std::vector<Base> bases_;
};

// How a reply is to be.
struct ReplyTerms {
  // What values are converted to; kUnknown: nothing.
  DType dtype = DType::kUnknown;
  uint64_t max_bytes = UINT64_MAX;
  std::shared_ptr<Cancellation> cancellation;
};

// Makes the deltas, or takes those that others have asked for, on the pool
// where that takes long; then converts the values that go whole, and answers.
// REQUIRES: the mutex is free.
void SendChanges(NamespaceState& state, ReplyTerms terms, HeldValues held,
                 PullReply reply, ReplyCallback<PullReply> done);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_HELD_VALUES_H_
