// The values of a reply that arrives in a stream.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_VALUES_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/destination.h"
#include "client/internal/transfer/stripe_stream.h"
#include "contract/requests.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/byte_buffer.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Writes the values that the stripes of a stream bring into their tensors.
// Thread-safe for different stripes.
class ValueWriter {
 public:
  // REQUIRES: the tensors of `values`, which outlive this object, have memory;
  // all of them together fewer than 2^63 bytes.
  explicit ValueWriter(absl::Span<Value> values);

  // Reads the parts that are left of one stripe's stream.
  // Errors: Internal (malformed, or too few).
  absl::Status Receive(StripeStream& stream, const Stripe& stripe) const;

 private:
  absl::Status ReceivePart(grpc::ByteBuffer* message, PartCursor& cursor) const;
  // Parses parts in an unusual form.
  absl::Status ParsePart(grpc::ByteBuffer* message, PartCursor& cursor) const;
  // Accepts a part, which may be of several values, and returns where its bytes
  // go. Errors: Internal (one that is not the next).
  absl::StatusOr<std::vector<absl::Span<char>>> Accept(
      const PartRange& part, PartCursor& cursor) const;

  // By entry.
  std::vector<uint64_t> sizes_;
  std::vector<char*> destinations_;
};

// Receives the stripes of a PushPullStream into one set of tensors. The
// manifest that comes first allocates them; the others must say the same.
// Thread-safe for different stripes.
class PulledValues {
 public:
  // Receives the values of a call with `num_entries` entries, into
  // `destinations` if all fit, else into memory from `buffers`; both outlive
  // this object.
  PulledValues(size_t num_entries, BufferPool& buffers,
               absl::Span<const Destination> destinations = {})
      : num_entries_(num_entries), buffers_(buffers), given_(destinations) {}

  // Reads all messages of one stripe's stream.
  // Errors: Internal (malformed, or too few) · ResourceExhausted (memory).
  absl::Status Receive(StripeStream& stream, const Stripe& stripe);

  // Moves the values out. REQUIRES: Receive has returned OK for every stripe.
  PullReply Release();

 private:
  absl::Status ReceiveManifest(grpc::ByteBuffer* message);
  // Allocates the tensors of the first manifest; checks that a later one says
  // the same.
  absl::Status TakeManifest(PullReply manifest);
  absl::Status Allocate(PullReply manifest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAgreement(const PullReply& manifest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t num_entries_;
  BufferPool& buffers_;
  const absl::Span<const Destination> given_;

  Mutex mutex_;
  PullReply reply_ ABSL_GUARDED_BY(mutex_);
  // Set with the first manifest, used by stripes that have seen it.
  std::optional<ValueWriter> writer_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_VALUES_H_
