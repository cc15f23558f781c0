// Pushes values of which only what has changed is sent.

#ifndef TENSORKV_CLIENT_CHANGE_WRITER_H_
#define TENSORKV_CLIENT_CHANGE_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/push_options.h"
#include "contract/requests.h"
#include "tensor/tensor.h"

namespace tensorkv {

// A ChangeWriter keeps the tensors that it has pushed last, and their tokens.
// It sends what has changed of a tensor that comes next for a key, where that
// takes fewer bytes. Where the key has another value by then, be it that
// somebody else has written it or that the server was restarted, it sends the
// whole.
//
// A push asks for tokens (PushRequest.with_tokens): afterwards the keys have
// the tensors to the bit, or it is refused. What values on a GPU and keys in
// slices get, and what goes to older servers, is sent whole each time.
//
// Shares the memory of the tensors, which nobody may write as long as it holds
// them: whoever trains in place pushes copies. It holds one for each key that
// was pushed, until Clear. Not thread-safe.
class ChangeWriter {
 public:
  // Counts how tensors have been sent.
  struct Counts {
    uint64_t deltas = 0;
    uint64_t wholes = 0;
    // Calls with deltas that the server refused, and that went again.
    uint64_t rejected = 0;
    // Bytes of deltas and of whole tensors, of those calls too.
    uint64_t bytes = 0;
  };

  // Does what Client::Push does, without the client's compression, in at most
  // `timeout` in all. An error leaves what it holds: if nobody knows what the
  // call has done, the next one finds out. Errors: also those of
  // PushRequest.with_tokens.
  absl::StatusOr<PushReply> Push(
      Client& client, std::vector<PushEntry> entries, PushOptions options = {},
      absl::Duration timeout = absl::InfiniteDuration());

  // Forgets what it holds.
  void Clear() { held_.clear(); }

  const Counts& counts() const { return counts_; }

 private:
  struct Held {
    std::string token;
    Tensor value;
  };

  // Returns the entries as they are sent: those with fewer bytes as deltas.
  std::vector<PushEntry> DeltasOf(const std::vector<PushEntry>& entries) const;
  // Sends `wholes` as they are in `sent`, and what the server refuses of that
  // again: the key that it names whole, and then all.
  absl::StatusOr<PushReply> SendAll(const Client& client,
                                    const std::vector<PushEntry>& wholes,
                                    std::vector<PushEntry> sent,
                                    const PushOptions& options,
                                    absl::Duration end);
  absl::StatusOr<PushReply> Send(const Client& client,
                                 std::vector<PushEntry> entries,
                                 const PushOptions& options,
                                 absl::Duration end);
  // Holds what the keys have now.
  void Hold(std::vector<PushEntry> entries, PushReply& reply);

  absl::flat_hash_map<std::string, Held> held_;
  Counts counts_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CHANGE_WRITER_H_
