#include "service/server/http2_scanner.h"

#include <algorithm>
#include <cstring>

namespace tensorkv {
namespace {

// RFC 9113, sections 3.4, 6 and 4.3.
constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr uint8_t kHeaders = 0x1;
constexpr uint8_t kRstStream = 0x3;
constexpr uint8_t kContinuation = 0x9;
constexpr uint8_t kEndHeaders = 0x4;

}  // namespace

Http2Scanner::Seen Http2Scanner::Scan(absl::string_view bytes) {
  Seen seen;
  while (!bytes.empty() && state_ != State::kNotHttp2) {
    const size_t size = state_ == State::kPreface ? ScanPreface(bytes)
                        : state_ == State::kFrameHeader
                            ? ScanFrameHeader(bytes, seen)
                            : SkipPayload(bytes);
    bytes.remove_prefix(size);
  }
  return seen;
}

size_t Http2Scanner::ScanPreface(absl::string_view bytes) {
  const size_t size = std::min(bytes.size(), kPreface.size() - num_read_);
  if (bytes.substr(0, size) != kPreface.substr(num_read_, size)) {
    state_ = State::kNotHttp2;
    return size;
  }
  num_read_ += size;
  if (num_read_ == kPreface.size()) {
    num_read_ = 0;
    state_ = State::kFrameHeader;
  }
  return size;
}

size_t Http2Scanner::ScanFrameHeader(absl::string_view bytes, Seen& seen) {
  const size_t size = std::min(bytes.size(), kFrameHeaderBytes - num_read_);
  std::memcpy(header_ + num_read_, bytes.data(), size);
  num_read_ += size;
  if (num_read_ == kFrameHeaderBytes) {
    num_read_ = 0;
    Begin(seen);
  }
  return size;
}

void Http2Scanner::Begin(Seen& seen) {
  payload_left_ = header_[0] << 16 | header_[1] << 8 | header_[2];
  const uint8_t type = header_[3];
  const uint8_t flags = header_[4];
  if (type == kRstStream) ++seen.num_resets;
  if (type == kHeaders || type == kContinuation) {
    header_block_bytes_ += payload_left_;
    seen.header_block_bytes =
        std::max(seen.header_block_bytes, header_block_bytes_);
    if ((flags & kEndHeaders) != 0) header_block_bytes_ = 0;
  }
  if (payload_left_ > 0) state_ = State::kPayload;
}

size_t Http2Scanner::SkipPayload(absl::string_view bytes) {
  const size_t size = std::min<size_t>(bytes.size(), payload_left_);
  payload_left_ -= static_cast<uint32_t>(size);
  if (payload_left_ == 0) state_ = State::kFrameHeader;
  return size;
}

}  // namespace tensorkv
