// One request and its reply over a socket, byte by byte.

#ifndef TENSORKV_BENCH_DATA_PATH_EXCHANGE_H_
#define TENSORKV_BENCH_DATA_PATH_EXCHANGE_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorkv::bench {

// Move all bytes of `vectors`, one vector after the other. Errors: Unavailable.
absl::Status SendAll(int connection, std::vector<iovec> vectors);
absl::Status ReceiveAll(int connection, std::vector<iovec> vectors);

// What goes out in a call, and what must come back: the protocols that we
// speak answer a call that succeeds with bytes that the caller can tell in
// advance, but for the values. These are sent from and received into the
// caller's memory, without a copy. Can be used again and again; not
// thread-safe.
class Exchange {
 public:
  void Send(absl::string_view text) { request_.Add(text); }
  void Expect(absl::string_view text) { reply_.Add(text); }
  // `values` is read, or written, whenever the exchange runs.
  void SendValues(const char* values, size_t size) {
    request_.segments.push_back({const_cast<char*>(values), size});
  }
  void ReceiveValues(char* values, size_t size) {
    reply_.segments.push_back({values, size});
  }

  // Sends all of the request over a connection, then receives the reply: the
  // server must not need its reply read before it has read the request.
  // Errors: Internal for a reply that is not as expected; Unavailable.
  absl::Status Run(int connection);

 private:
  // Values in memory of the caller, and runs of the text between them.
  struct Message {
    struct Segment {
      char* values = nullptr;  // null: the next bytes of the text
      size_t size = 0;
    };
    void Add(absl::string_view more);
    std::vector<iovec> VectorsOver(char* at) const;

    std::string text;
    std::vector<Segment> segments;
  };

  Message request_;
  Message reply_;
  std::string received_;
};

// What the store "raw" does, the floor of what one costs: a header goes before
// each request and each reply, in the byte order of the machine. A reply begins
// with the request's header; a get's has the size of the value that follows. A
// connection has one value.
enum class RawOperation : uint64_t { kPut = 1, kGet = 2, kDelete = 3 };

struct RawHeader {
  RawOperation operation = RawOperation::kPut;
  uint64_t size_bytes = 0;  // of the value that follows
};
static_assert(sizeof(RawHeader) == 16);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_EXCHANGE_H_
