// The values of a reply that arrives in batches.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_BATCHES_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_BATCHES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "client/internal/transfer/stripe_stream.h"
#include "contract/payload_reader.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Puts the values of each batch where they belong while the server prepares
// the next. Confined to one thread.
class PulledBatches {
 public:
  // Returns whether the chunk has a batch, as far as its first field tells.
  static bool HasBatch(grpc::ByteBuffer* chunk);

  // Receives the values of a call with `num_entries` entries, into memory from
  // `buffers`, which outlives this object.
  PulledBatches(size_t num_entries, BufferPool& buffers);

  // Reads all messages of a stream, of which `message` came first.
  // Errors: Internal (malformed, or too few) · ResourceExhausted (memory).
  absl::Status Receive(StripeStream& stream, grpc::ByteBuffer message);

  // Moves the values out. REQUIRES: Receive has returned OK.
  PullReply Release() { return std::move(decoded_.call); }

 private:
  // Adds the values of one batch.
  absl::Status Add(grpc::ByteBuffer* message);
  // Parses a batch in an unusual form, and puts the values of `message`, which
  // gets the usual one, behind the others.
  absl::Status ParseBatch(grpc::ByteBuffer* message);
  // Gives the values from `begin` on their memory and elements.
  absl::Status ReceiveElements(grpc::ByteBuffer* message, size_t begin);

  const size_t num_entries_;
  BufferPool& buffers_;
  // All values, and where the elements of one batch are.
  Decoded<PullReply> decoded_;
  std::vector<Tensor*> tensors_;  // of that batch
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_BATCHES_H_
