// Follows the frames of an HTTP/2 connection.

#ifndef TENSORKV_SERVICE_GUARD_HTTP2_SCANNER_H_
#define TENSORKV_SERVICE_GUARD_HTTP2_SCANNER_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Finds the frames in the bytes that pass in one direction of a connection. It
// reads frame headers and passes on payloads without a look at them, so that it
// costs next to nothing. It reports no frame of a stream that does not begin as
// HTTP/2 does. Not thread-safe.
class Http2Frames {
 public:
  struct Frame {
    uint8_t type = 0;
    uint8_t flags = 0;
    uint32_t stream = 0;
    uint32_t payload_bytes = 0;
  };
  // Hears of what passes, in order.
  class Listener {
   public:
    virtual ~Listener() = default;
    // Hears a frame header, before the payload.
    virtual void OnFrame(const Frame& frame) = 0;
    // Hears the next bytes of the last frame's payload.
    virtual void OnPayload(absl::string_view) {}
    // Hears that the last frame's payload has come as a whole.
    virtual void OnEnd() {}
  };

  // Clients send a preface before their first frame, servers do not.
  explicit Http2Frames(bool has_preface)
      : state_(has_preface ? State::kPreface : State::kFrameHeader) {}

  // Returns whether what was read begins as HTTP/2 does.
  bool is_http2() const { return state_ != State::kNotHttp2; }

  // Reads the next bytes, and calls `listener` for what is in them.
  void Read(absl::string_view bytes, Listener& listener);

 private:
  static constexpr size_t kFrameHeaderBytes = 9;

  enum class State { kPreface, kFrameHeader, kPayload, kNotHttp2 };

  size_t ReadPreface(absl::string_view bytes);
  size_t ReadFrameHeader(absl::string_view bytes, Listener& listener);
  size_t ReadPayload(absl::string_view bytes, Listener& listener);
  Frame ParsedHeader() const;

  State state_;
  // Says how much of the preface or the frame header has been read.
  size_t num_read_ = 0;
  uint8_t header_[kFrameHeaderBytes] = {};
  uint32_t payload_left_ = 0;
};

// Reads what a gRPC client and its server send each other, and counts what a
// client may send too much of. Not thread-safe.
class Http2Scanner final : private Http2Frames::Listener {
 public:
  struct Seen {
    bool is_http2 = true;
    // Streams that the client has ended before their time (RST_STREAM).
    uint32_t num_resets = 0;
    // Frames that the server has to acknowledge: PING and SETTINGS.
    uint32_t num_acks_due = 0;
    // PINGs that have followed another PING although the server has sent
    // nothing of calls in between. gRPC allows two that come early.
    uint32_t num_idle_pings = 0;
    // The bytes of the largest header block, also of one that has yet to end.
    uint64_t header_block_bytes = 0;
    // The most streams that were open at a time; 0 if none was opened.
    size_t num_open_streams = 0;
  };

  // Reads the next bytes that the client has sent, and returns what they have
  // brought. What came before counts in is_http2, in the size of a header block
  // that goes on, in the streams that are open, and in whether a PING is idle.
  Seen Scan(absl::string_view bytes);

  // Reads the next bytes that the server has sent, which may end streams too.
  void ScanReply(absl::string_view bytes);

  size_t num_open_streams() const { return streams_.size(); }

  // Returns whether the client has ever begun a call.
  bool has_calls() const { return last_stream_ > 0; }

  // Returns how many bytes have come of messages that have not come as a whole.
  uint64_t unfinished_bytes() const { return unfinished_bytes_; }

 private:
  static constexpr size_t kPrefixBytes = 5;

  // Message says how much has come of the message that a stream is sending.
  struct Message {
    size_t num_prefix_bytes = 0;
    uint8_t prefix[kPrefixBytes] = {};
    uint32_t bytes = 0;
    uint32_t bytes_left = 0;
    // The client sends nothing more.
    bool is_last = false;
  };
  // Ends the streams that the server ends or resets, and sees what is of calls.
  class ReplyListener;

  void OnFrame(const Http2Frames::Frame& frame) override;
  void OnPayload(absl::string_view bytes) override;
  void OnEnd() override;
  // Adds the frame's payload to the header block that it is part of.
  void CountHeaders(const Http2Frames::Frame& frame);
  // Counts a stream as open, unless it was opened before.
  void OpenStream(uint32_t stream);
  // Counts the bytes of a message as unfinished no longer.
  void ForgetMessage(Message* message);
  // Records that the client sends nothing more in a stream, which stays open.
  void EndMessages(uint32_t stream);
  // Forgets a stream that is no longer open.
  void EndStream(uint32_t stream);

  Http2Frames frames_{/*has_preface=*/true};
  Http2Frames replies_{/*has_preface=*/false};
  Seen seen_;
  uint64_t header_block_bytes_ = 0;
  Http2Frames::Frame frame_;
  // Streams that are open: gRPC keeps something of each. Whoever has opened one
  // may have ended it on its side, and waits for the server.
  absl::flat_hash_map<uint32_t, Message> streams_;
  uint32_t last_stream_ = 0;
  // True if the client has sent a PING since the server last sent something of
  // a call.
  bool was_pinged_ = false;
  uint64_t unfinished_bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_GUARD_HTTP2_SCANNER_H_
