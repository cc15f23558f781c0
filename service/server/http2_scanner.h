// Follows the frames of an HTTP/2 connection.

#ifndef TENSORKV_SERVICE_SERVER_HTTP2_SCANNER_H_
#define TENSORKV_SERVICE_SERVER_HTTP2_SCANNER_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Reads what a client sends, frame header by frame header, and counts. It skips
// the frames' contents, so that it costs next to nothing. Of anything that does
// not begin as HTTP/2 does, it sees nothing. Not thread-safe.
class Http2Scanner {
 public:
  struct Seen {
    // Streams that the client has ended before their time (RST_STREAM).
    uint32_t num_resets = 0;
    // The largest header block, or part of one, that has come by now.
    uint64_t header_block_bytes = 0;
  };

  // Looks at the next bytes; returns what was in them.
  Seen Scan(absl::string_view bytes);

 private:
  static constexpr size_t kFrameHeaderBytes = 9;

  enum class State { kPreface, kFrameHeader, kPayload, kNotHttp2 };

  size_t ScanPreface(absl::string_view bytes);
  size_t ScanFrameHeader(absl::string_view bytes, Seen& seen);
  size_t SkipPayload(absl::string_view bytes);
  void Begin(Seen& seen);

  State state_ = State::kPreface;
  // How much of the preface or the frame header has been read.
  size_t num_read_ = 0;
  uint8_t header_[kFrameHeaderBytes] = {};
  uint32_t payload_left_ = 0;
  uint64_t header_block_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_HTTP2_SCANNER_H_
