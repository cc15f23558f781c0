// A ChangeWriter that Python has.

#ifndef TENSORKV_PYTHON_CORE_SHARED_CHANGE_WRITER_H_
#define TENSORKV_PYTHON_CORE_SHARED_CHANGE_WRITER_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/change_writer.h"
#include "client/client.h"
#include "contract/requests.h"

namespace tensorkv::python {

// Makes one push at a time: one that was interrupted may go on while the next
// one begins, which does not wait for it. Thread-safe.
class SharedChangeWriter {
 public:
  // Pushes tensors that nobody else writes from now on. Errors: also Aborted
  // while another push goes on.
  absl::StatusOr<PushReply> Push(Client client, std::vector<PushEntry> entries,
                                 const PushOptions& options,
                                 absl::Duration timeout) {
    if (is_busy_.exchange(true)) {
      return absl::AbortedError("the push before is under way yet");
    }
    if (is_to_be_cleared_.exchange(false)) writer_.Clear();
    absl::StatusOr<PushReply> reply =
        writer_.Push(client, std::move(entries), options, timeout);
    bytes_ = writer_.counts().bytes;
    is_busy_ = false;
    return reply;
  }
  // Has it forget what it holds before the next push.
  void Clear() { is_to_be_cleared_ = true; }
  // Returns how many bytes of values were sent.
  uint64_t bytes() const { return bytes_; }

 private:
  std::atomic<bool> is_busy_ = false;
  std::atomic<bool> is_to_be_cleared_ = false;
  std::atomic<uint64_t> bytes_ = 0;
  // Used by the push that has set is_busy_.
  ChangeWriter writer_;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_SHARED_CHANGE_WRITER_H_
