// One request and its reply, byte by byte.

#ifndef TENSORKV_BENCH_DATA_PATH_SOCKETS_EXCHANGE_H_
#define TENSORKV_BENCH_DATA_PATH_SOCKETS_EXCHANGE_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorkv::bench {

// A run of bytes in memory, to be sent or to be received into.
struct Segment {
  char* data = nullptr;
  size_t size = 0;
  // What must arrive; null for a value.
  const char* expected = nullptr;
};

// What goes out in a call, and what must come back: the protocols that we
// speak answer a call that succeeds with bytes that the caller can tell in
// advance, but for the values. These are sent from and received into the
// caller's memory, without a copy.
//
// Can be used again and again. Movable; not thread-safe.
class Exchange {
 public:
  Exchange() = default;
  Exchange(Exchange&&) = default;
  Exchange& operator=(Exchange&&) = default;

  void Send(absl::string_view text);
  // `values` is read whenever the exchange runs.
  void SendValues(const char* values, size_t size_bytes);

  void Expect(absl::string_view text);
  // `values` is written whenever the exchange runs.
  void ReceiveValues(char* values, size_t size_bytes);

  absl::Span<const Segment> request() const { return request_; }
  absl::Span<const Segment> reply() const { return reply_; }

  // Sends all of the request over a connection, then receives the reply: the
  // server must not need its reply read before it has read the request.
  // Errors: Internal for a reply that is not as expected; those of SendAll and
  // ReceiveAll.
  absl::Status Run(int connection);

 private:
  std::vector<Segment> request_;
  std::vector<Segment> reply_;
  // Deques, since the segments point into the strings.
  std::deque<std::string> sent_texts_;
  std::deque<std::string> expected_texts_;
  std::deque<std::string> received_texts_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SOCKETS_EXCHANGE_H_
