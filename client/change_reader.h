// Reads values of which only what has changed is sent.

#ifndef TENSORKV_CLIENT_CHANGE_READER_H_
#define TENSORKV_CLIENT_CHANGE_READER_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "tensor/tensor.h"

namespace tensorkv {

// A ChangeReader keeps the values of its last pull, and tells the server so:
// what has not changed is not sent again, and of the rest, where a snapshot has
// the value that the reader holds, only what has changed. What comes is checked
// by its digest, and pulled whole where that differs. A server that was
// restarted, or has not kept the former value, sends the whole: the reader need
// not know.
//
// Shares the memory of the tensors that it returns, which nobody may write as
// long as it holds them. Not thread-safe.
class ChangeReader {
 public:
  // Counts how values have come.
  struct Counts {
    uint64_t unchanged = 0;
    uint64_t deltas = 0;
    uint64_t wholes = 0;
    // Deltas that did not decode to what the server has.
    uint64_t rejected = 0;
    // Bytes of deltas and of whole values.
    uint64_t bytes = 0;
  };

  // Does what Client::Pull does. The values are whole, whatever was sent, and
  // are those of the server to the bit. Sets the request's `changes` and
  // `held`. An error leaves what it holds. REQUIRES: `client` reads into no
  // memory of the caller's. Errors: also ResourceExhausted (no memory for a
  // value).
  absl::StatusOr<PullReply> Pull(Client& client, PullRequest request);

  // Forgets what it holds.
  void Clear() { held_.clear(); }

  const Counts& counts() const { return counts_; }

 private:
  struct Held {
    std::string token;
    Tensor value;
  };

  // Shows what it holds of the request's keys.
  void Show(PullRequest& request) const;
  // Makes the values whole. Returns false if one cannot be.
  absl::StatusOr<bool> Complete(const PullRequest& request, PullReply& reply);
  absl::StatusOr<bool> Complete(const PullEntry& entry, Value& value);
  // Decodes a delta into `out`. Returns false if it is none of what was held.
  bool Decode(const Delta& delta, const Tensor& bytes, TensorView held,
              MutableTensorView out);
  // Makes a value whole of which slices have come as changes.
  bool CompleteSlices(const Tensor& held, Value& value);
  // Holds the values, and no others.
  void Hold(const PullRequest& request, PullReply& reply);

  absl::flat_hash_map<std::string, Held> held_;
  Counts counts_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CHANGE_READER_H_
