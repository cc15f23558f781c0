// The values of a reply that arrives in a stream.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_VALUES_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/destination.h"
#include "client/internal/transfer/stripe_stream.h"
#include "contract/requests.h"
#include "contract/stripe_range.h"
#include "grpcpp/support/byte_buffer.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Receives the stripes of a PullStream or PushPullStream into one set of
// tensors. The manifest that comes first allocates them; the others must
// say the same. Thread-safe for different stripes.
class PulledValues {
 public:
  // Receives the values of a call with `num_entries` entries, into
  // `destinations` if all fit, else into memory from `buffers`; both outlive
  // this object. A pull that has taken batches may get these in place of a
  // manifest and parts. REQUIRES then: one stripe, no destinations.
  PulledValues(size_t num_entries, BufferPool& buffers,
               absl::Span<const Destination> destinations = {},
               bool allow_batches = false)
      : num_entries_(num_entries),
        buffers_(buffers),
        given_(destinations),
        allow_batches_(allow_batches) {}

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
  absl::Status ReceivePart(grpc::ByteBuffer* message, PartCursor& cursor);
  // Parses parts in an unusual form.
  absl::Status ParsePart(grpc::ByteBuffer* message, PartCursor& cursor);

  const size_t num_entries_;
  BufferPool& buffers_;
  const absl::Span<const Destination> given_;
  const bool allow_batches_;

  Mutex mutex_;
  bool has_manifest_ ABSL_GUARDED_BY(mutex_) = false;
  PullReply reply_ ABSL_GUARDED_BY(mutex_);
  // By entry. Set with the first manifest, read by stripes that have seen it.
  std::vector<uint64_t> sizes_;
  std::vector<char*> destinations_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_PULLED_VALUES_H_
