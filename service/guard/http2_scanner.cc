#include "service/guard/http2_scanner.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tensorkv {
namespace {

// RFC 9113, sections 3.4, 6 and 4.3.
constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr uint8_t kData = 0x0;
constexpr uint8_t kHeaders = 0x1;
constexpr uint8_t kRstStream = 0x3;
constexpr uint8_t kSettings = 0x4;
constexpr uint8_t kPing = 0x6;
constexpr uint8_t kWindowUpdate = 0x8;
constexpr uint8_t kContinuation = 0x9;
constexpr uint8_t kAck = 0x1;
constexpr uint8_t kEndStream = 0x1;
constexpr uint8_t kEndHeaders = 0x4;

// Says that its sender sends nothing more on the stream.
bool EndsStream(const Http2Frames::Frame& frame) {
  return (frame.type == kData || frame.type == kHeaders) &&
         (frame.flags & kEndStream) != 0;
}

bool WantsAck(const Http2Frames::Frame& frame) {
  return (frame.type == kPing || frame.type == kSettings) &&
         (frame.flags & kAck) == 0;
}

// Returns whether the frame is one that a server sends for the sake of calls.
bool IsOfCalls(const Http2Frames::Frame& frame) {
  return frame.type == kData || frame.type == kHeaders ||
         frame.type == kWindowUpdate;
}

bool HasHeaders(const Http2Frames::Frame& frame) {
  return frame.type == kHeaders || frame.type == kContinuation;
}

uint32_t BigEndian32(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 |
         uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

}  // namespace

void Http2Frames::Read(absl::string_view bytes, Listener& listener) {
  while (!bytes.empty() && state_ != State::kNotHttp2) {
    const size_t size = state_ == State::kPreface ? ReadPreface(bytes)
                        : state_ == State::kFrameHeader
                            ? ReadFrameHeader(bytes, listener)
                            : ReadPayload(bytes, listener);
    bytes.remove_prefix(size);
  }
}

size_t Http2Frames::ReadPreface(absl::string_view bytes) {
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

size_t Http2Frames::ReadFrameHeader(absl::string_view bytes,
                                    Listener& listener) {
  const size_t size = std::min(bytes.size(), kFrameHeaderBytes - num_read_);
  std::memcpy(header_ + num_read_, bytes.data(), size);
  num_read_ += size;
  if (num_read_ < kFrameHeaderBytes) return size;
  num_read_ = 0;
  const Frame frame = ParsedHeader();
  payload_left_ = frame.payload_bytes;
  if (payload_left_ > 0) state_ = State::kPayload;
  listener.OnFrame(frame);
  if (payload_left_ == 0) listener.OnEnd();
  return size;
}

Http2Frames::Frame Http2Frames::ParsedHeader() const {
  return {.type = header_[3],
          .flags = header_[4],
          // The highest bit is reserved.
          .stream = BigEndian32(header_ + 5) & 0x7fffffff,
          .payload_bytes = BigEndian32(header_) >> 8};
}

size_t Http2Frames::ReadPayload(absl::string_view bytes, Listener& listener) {
  const size_t size = std::min<size_t>(bytes.size(), payload_left_);
  listener.OnPayload(bytes.substr(0, size));
  payload_left_ -= static_cast<uint32_t>(size);
  if (payload_left_ == 0) {
    state_ = State::kFrameHeader;
    listener.OnEnd();
  }
  return size;
}

class Http2Scanner::ReplyListener final : public Http2Frames::Listener {
 public:
  explicit ReplyListener(Http2Scanner* scanner) : scanner_(scanner) {}

  void OnFrame(const Http2Frames::Frame& frame) override {
    if (IsOfCalls(frame)) scanner_->was_pinged_ = false;
    if (frame.type == kRstStream || EndsStream(frame)) {
      scanner_->EndStream(frame.stream);
    }
  }

 private:
  Http2Scanner* const scanner_;
};

Http2Scanner::Seen Http2Scanner::Scan(absl::string_view bytes) {
  seen_ = {};
  frames_.Read(bytes, *this);
  seen_.is_http2 = frames_.is_http2();
  return seen_;
}

void Http2Scanner::ScanReply(absl::string_view bytes) {
  ReplyListener listener(this);
  replies_.Read(bytes, listener);
}

void Http2Scanner::OnFrame(const Http2Frames::Frame& frame) {
  frame_ = frame;
  if (WantsAck(frame)) ++seen_.num_acks_due;
  if (frame.type == kPing && WantsAck(frame) &&
      std::exchange(was_pinged_, true)) {
    ++seen_.num_idle_pings;
  }
  if (frame.type == kRstStream) {
    ++seen_.num_resets;
    EndStream(frame.stream);
  }
  if (frame.type == kHeaders) OpenStream(frame.stream);
  if (HasHeaders(frame)) CountHeaders(frame);
}

void Http2Scanner::CountHeaders(const Http2Frames::Frame& frame) {
  header_block_bytes_ += frame.payload_bytes;
  seen_.header_block_bytes =
      std::max(seen_.header_block_bytes, header_block_bytes_);
  if ((frame.flags & kEndHeaders) != 0) header_block_bytes_ = 0;
}

void Http2Scanner::OpenStream(uint32_t stream) {
  if (stream <= last_stream_) return;  // trailers
  // Clients have the odd ones (section 5.1.1); gRPC ignores the others, however
  // many there are.
  if (stream % 2 == 0) return;
  last_stream_ = stream;
  streams_.try_emplace(stream);
  seen_.num_open_streams = std::max(seen_.num_open_streams, streams_.size());
}

void Http2Scanner::ForgetMessage(Message* message) {
  unfinished_bytes_ -= message->bytes;
  *message = {};
}

void Http2Scanner::EndMessages(uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  ForgetMessage(&found->second);
  found->second.is_last = true;
}

void Http2Scanner::EndStream(uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  ForgetMessage(&found->second);
  streams_.erase(found);
}

// A message is a byte that says whether it is compressed, four with its length,
// and its bytes; messages and frames may end anywhere in one another.
void Http2Scanner::OnPayload(absl::string_view bytes) {
  if (frame_.type != kData) return;
  const auto found = streams_.find(frame_.stream);
  // Nobody keeps what comes after the stream's end.
  if (found == streams_.end() || found->second.is_last) return;
  Message& message = found->second;
  while (!bytes.empty()) {
    size_t size;
    if (message.num_prefix_bytes < kPrefixBytes) {
      size = std::min(bytes.size(), kPrefixBytes - message.num_prefix_bytes);
      std::memcpy(message.prefix + message.num_prefix_bytes, bytes.data(),
                  size);
      message.num_prefix_bytes += size;
      message.bytes_left = BigEndian32(message.prefix + 1);
    } else {
      size = std::min<size_t>(bytes.size(), message.bytes_left);
      message.bytes_left -= static_cast<uint32_t>(size);
      message.bytes += static_cast<uint32_t>(size);
      unfinished_bytes_ += size;
    }
    bytes.remove_prefix(size);
    if (message.num_prefix_bytes == kPrefixBytes && message.bytes_left == 0) {
      ForgetMessage(&message);
    }
  }
}

void Http2Scanner::OnEnd() {
  if (EndsStream(frame_)) EndMessages(frame_.stream);
}

}  // namespace tensorkv
