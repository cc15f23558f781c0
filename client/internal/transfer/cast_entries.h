// Pushes whose elements are cast as they are sent.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_CAST_ENTRIES_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_CAST_ENTRIES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/send_cast.h"
#include "contract/encoded_message.h"
#include "contract/requests.h"
#include "contract/stripe_range.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Returns what CallOptions::casts says of entry `i`.
inline SendCast CastOf(absl::Span<const SendCast> casts, size_t i) {
  return casts.empty() ? SendCast() : casts[i];
}

// Replaces the tensors of `entries` by what `casts` says that they become, in
// memory from `memory`.
// Errors: InvalidArgument (elements, or sums, that are not finite), naming the
// key · ResourceExhausted.
absl::Status CastEntries(absl::Span<const SendCast> casts, BufferPool& memory,
                         std::vector<PushEntry>& entries);

// Replaces the tensors of `entries` that are to be cast by tensors without
// data, of the dtype that they become.
absl::Status DescribeCasts(absl::Span<const SendCast> casts,
                           std::vector<PushEntry>& entries);

// Casts the elements of `entry` that `part` names, and returns a chunk with
// their bytes. `part` counts bytes of the entry once it is cast. Errors: those
// of CastEntries.
absl::StatusOr<EncodedMessage> CastPart(const PartRange& part,
                                        const PushEntry& entry,
                                        const SendCast& cast,
                                        BufferPool& memory);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_CAST_ENTRIES_H_
