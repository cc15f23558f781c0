// Keeps memory for tensors, and gives back what nobody needs any more.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_TRIMMED_POOL_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_TRIMMED_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/ref_counted.h"
#include "client/canceller.h"
#include "client/internal/retry/retry_loop.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// A BufferPool whose memory goes back to the system when no buffer has used it
// for at least `max_idle_time`, and at most twice as long. It has no thread: as
// long as memory is idle, an alarm looks at it. Thread-safe.
class TrimmedPool {
 public:
  // Runs a function later, as RetryEnvironment::run_after does.
  using RunAfter =
      std::function<void(absl::Duration, const std::shared_ptr<Canceller>&,
                         absl::AnyInvocable<void() &&>)>;

  TrimmedPool(size_t max_idle_bytes, absl::Duration max_idle_time,
              RunAfter run_after = SystemRetryEnvironment().run_after);
  // Does not wait. Idle memory of the pool is freed with its last buffer.
  ~TrimmedPool();
  TrimmedPool(const TrimmedPool&) = delete;
  TrimmedPool& operator=(const TrimmedPool&) = delete;

  // The pool may outlive this object, but is not trimmed any more then.
  const RefPtr<BufferPool>& pool() const { return pool_; }

 private:
  class Trimmer;

  // Shared with the alarm that is set.
  const std::shared_ptr<Trimmer> trimmer_;
  const RefPtr<BufferPool> pool_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_TRIMMED_POOL_H_
