// Values of a pull whose caller wants them in another dtype.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CAST_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CAST_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "contract/data_requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/stored_key.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Check that `dtype` is unknown, or one to which values, or those of `key`, can
// be converted. Errors: InvalidArgument.
absl::Status CheckCast(DType dtype);
absl::Status CheckCast(DType dtype, const StoredKey& key);
absl::Status CheckCast(DType dtype, absl::string_view key, DType stored);

// Returns what values of the dtype `stored` become where values are converted
// to `dtype`: that, but narrower floats and integers stay as they are, and so
// do all where it is kUnknown.
DType CastOf(DType dtype, DType stored);

// The conversion of the values of a pull to another dtype. It keeps the values
// as they are stored until the device has converted them, as an assign to keys
// of the dtype would.
class PullCast {
 public:
  // Takes the values of `reply` that CastOf converts; it then has the wanted
  // ones without elements.
  PullCast(DType dtype, PullReply& reply);

  // Returns how many bytes the conversion reads and writes.
  uint64_t size_bytes() const { return size_bytes_; }

  // Gives `reply` the elements that it lacks, in memory that is counted as
  // values or, of snapshots that say what they give, as retained: readers of
  // these take nothing of what pushes need. What it took is then free.
  // Errors: ResourceExhausted (OVER_BUDGET), and those of the device.
  absl::Status Run(const NamespaceState& state, bool is_retained,
                   PullReply& reply) &&;

 private:
  // By entry; empty for those that stay as they are.
  std::vector<Tensor> stored_;
  uint64_t size_bytes_ = 0;
};

// Says how a pull is to be answered.
struct ReplyTerms {
  // What values are converted to, as CastOf says.
  DType dtype = DType::kUnknown;
  // Says that the snapshot that is read wants that.
  bool is_of_snapshot = false;
  uint64_t max_bytes = UINT64_MAX;
  // When the call ends, as the alarms tell time.
  absl::Duration deadline = absl::InfiniteDuration();
  // May be null.
  std::shared_ptr<Cancellation> cancellation;
  // Keeps what the call takes of its caller's quotas, while there is work for
  // it; may be null.
  std::shared_ptr<const void> share;
};

// Answers with the values of `reply`, but those that are not whole as they are:
// converted, here or, where that takes long, on the pool, if the caller still
// wants them then. Errors: ResourceExhausted (REPLY_TOO_LARGE, OVER_BUDGET),
// and those of the device.
void SendReply(NamespaceState& state, ReplyTerms terms, PullReply reply,
               ReplyCallback<PullReply> done);

// Checks that the values of `reply` have at most `max_bytes`. Errors:
// ResourceExhausted (REPLY_TOO_LARGE).
absl::Status CheckReplyBytes(const PullReply& reply, uint64_t max_bytes);
absl::Status CheckReplyBytes(uint64_t bytes, uint64_t max_bytes);
// Returns how many bytes its values have.
uint64_t BytesOf(const PullReply& reply);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CAST_H_
