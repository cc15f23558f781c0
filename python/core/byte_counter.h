// How much a client's calls carry.

#ifndef TENSORKV_PYTHON_CORE_BYTE_COUNTER_H_
#define TENSORKV_PYTHON_CORE_BYTE_COUNTER_H_

#include <atomic>
#include <cstdint>

#include "client/client_observer.h"

namespace tensorkv::python {

// Counts the bytes of tensors that all attempts have sent and brought, encoded
// as they went. Thread-safe.
class ByteCounter final : public ClientObserver {
 public:
  int64_t sent() const { return sent_; }
  int64_t received() const { return received_; }

  void OnStarted(Method, int64_t sent_bytes) override { sent_ += sent_bytes; }
  void OnEnded(Method, absl::StatusCode, absl::Duration,
               int64_t received_bytes) override {
    received_ += received_bytes;
  }
  void OnEncoded(Compression::Kind, int64_t, int64_t) override {}

 private:
  std::atomic<int64_t> sent_ = 0;
  std::atomic<int64_t> received_ = 0;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_BYTE_COUNTER_H_
