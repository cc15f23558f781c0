// Reads protobuf's wire format in the form that writers usually give it.

#ifndef TENSORKV_CONTRACT_WIRE_READER_H_
#define TENSORKV_CONTRACT_WIRE_READER_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "contract/wire_tags.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace tensorkv::wire {

// The generated code takes no message of 2 GiB, and needs a few bytes of that
// for itself.
inline constexpr uint64_t kMaxMessageBytes =
    std::numeric_limits<int32_t>::max() - 1024;

// Returns whether none of the bytes is above 0x7f. REQUIRES: at least a Word of
// them.
template <typename Word>
inline bool IsAscii(const char* bytes, size_t size) {
  constexpr Word kHighBits = static_cast<Word>(0x8080808080808080);
  Word bits = 0;
  Word word = 0;
  for (size_t i = 0; i + sizeof(word) < size; i += sizeof(word)) {
    std::memcpy(&word, bytes + i, sizeof(word));
    bits |= word;
  }
  std::memcpy(&word, bytes + size - sizeof(word), sizeof(word));
  return ((bits | word) & kHighBits) == 0;
}

// Returns whether `text` is ASCII, as most texts are.
inline bool IsAscii(absl::string_view text) {
  const size_t size = text.size();
  if (size >= sizeof(uint64_t)) return IsAscii<uint64_t>(text.data(), size);
  if (size >= sizeof(uint32_t)) return IsAscii<uint32_t>(text.data(), size);
  return size == 0 || IsAscii<uint8_t>(text.data(), size);
}

// Walks one message over the chunks of a stream. A message is read by asking
// for its fields in ascending order:
//
//   if (in.Accept(kSequence)) id.sequence = in.ReadNumber();
//
// Fields in another order, twice, or unknown are left over, and a message with
// something left over has failed. So has one with numbers that are not in
// their shortest form. A failure stays: from then on nothing is accepted, and
// what is read is zero or empty.
//
// Safe on every input. Not thread-safe.
class WireReader {
 public:
  // The message is the first `size_bytes` of `in`.
  WireReader(google::protobuf::io::ZeroCopyInputStream* in, uint64_t size_bytes)
      : in_(*in), limit_(size_bytes) {}

  bool ok() const { return ok_; }
  // Returns why the message has failed; OK if it has not.
  const absl::Status& status() const { return status_; }
  // Makes the message count as failed: as one that is malformed or in another
  // form, or for what a caller has found in what it has read. The first cause
  // stays.
  void Fail();
  void Fail(const absl::Status& cause);
  // Puts `subject` before the cause of the failure.
  void Explain(absl::string_view subject);

  // Returns how many bytes of the stream were read.
  uint64_t position() const { return chunk_end_ - bytes_in_chunk(); }
  // Returns how many bytes of the innermost message are left; 0 if Skip or Copy
  // has gone beyond its end.
  uint64_t bytes_left() const {
    const uint64_t position = this->position();
    return position < limit_ ? limit_ - position : 0;
  }

  // Returns whether the innermost message goes on with `tag`, which is then
  // read.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Accept(Tag tag) {
    if (next_ >= stop_ && !NextField()) return false;
    if (*next_ != tag) return false;
    ++next_;
    return true;
  }

  // Returns whether the innermost message goes on with these bytes, all in one
  // chunk; they are then read. REQUIRES: `bytes` is not empty.
  bool AcceptBytes(absl::string_view bytes) {
    if (stop_ - next_ < static_cast<ptrdiff_t>(bytes.size()) ||
        std::memcmp(next_, bytes.data(), bytes.size()) != 0) {
      return false;
    }
    next_ += bytes.size();
    return true;
  }
  // Returns what is next in this chunk, at most `max_bytes`, without reading
  // it; that may go beyond the innermost message.
  absl::string_view Peek(size_t max_bytes) const {
    return {reinterpret_cast<const char*>(next_),
            std::min(max_bytes, bytes_in_chunk())};
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE uint64_t ReadNumber() {
    if (bytes_in_chunk() >= 2) {
      // Almost all numbers have one byte or two.
      const uint64_t first = next_[0];
      const uint64_t second = next_[1];
      if (first < 0x80) {
        next_ += 1;
        return first;
      }
      if (second > 0 && second < 0x80) {
        next_ += 2;
        return second << 7 | (first & 0x7F);
      }
    }
    return ReadLongNumber();
  }
  // Reads a number; fails for one above `max`.
  uint64_t ReadNumberUpTo(uint64_t max) {
    const uint64_t number = ReadNumber();
    if (number <= max) return number;
    Fail();
    return 0;
  }
  bool ReadBool() { return ReadNumberUpTo(1) == 1; }
  // Reads a number of 8 or 4 bytes; fails for 0, which writers leave out.
  template <typename Bits>
  Bits ReadFixed() {
    const Bits number = ReadPresentFixed<Bits>();
    if (number == 0) Fail();
    return number;
  }
  // Does what ReadFixed does for a field that may be 0 where it is present.
  template <typename Bits>
  Bits ReadPresentFixed() {
    static_assert(std::endian::native == std::endian::little);
    Bits number = 0;
    Copy(sizeof(number), reinterpret_cast<char*>(&number));
    return ok_ ? number : 0;
  }
  // Reads the length of what follows; fails if the innermost message is shorter
  // than that.
  ABSL_ATTRIBUTE_ALWAYS_INLINE uint64_t ReadLength() {
    const uint64_t length = ReadNumber();
    if (length <= bytes_left()) return length;
    Fail();
    return 0;
  }

  // Makes `*bytes` anew, in place: to assign would take twice as long.
  void ReadBytes(std::string* bytes) {
    const uint64_t length = ReadLength();
    if (length > bytes_in_chunk()) return ReadChunks(length, bytes);
    std::destroy_at(bytes);
    std::construct_at(bytes, reinterpret_cast<const char*>(next_), length);
    next_ += length;
  }
  // Does the same; fails unless the bytes are UTF-8.
  void ReadText(std::string* text) {
    ReadBytes(text);
    if (!IsAscii(*text)) CheckUtf8(*text);
  }

  // Has `read_fields` read a message within this one, to its end.
  template <typename ReadFields>
  ABSL_ATTRIBUTE_ALWAYS_INLINE void ReadMessage(ReadFields read_fields) {
    const uint64_t length = ReadNumber();
    const uint64_t outer_limit = limit_;
    const uint8_t* const outer_stop = stop_;
    // Most are within the chunk, and the message around them goes on there. The
    // length itself may be beyond the end of the message around it.
    const bool is_in_chunk =
        next_ < stop_ && length < static_cast<size_t>(stop_ - next_);
    if (is_in_chunk) {
      limit_ = position() + length;
      stop_ = next_ + length;
    } else {
      BeginMessage(length);
    }
    read_fields();
    if (position() != limit_) Fail();
    if (!ok_) return;
    if (is_in_chunk) {
      limit_ = outer_limit;
      stop_ = outer_stop;
    } else {
      SetLimit(outer_limit);
    }
  }

  // Passes over so many bytes of the stream, beyond the end of the innermost
  // message too. Fails at the end of the stream.
  void Skip(uint64_t size_bytes) {
    if (size_bytes <= bytes_in_chunk()) {
      next_ += size_bytes;
    } else {
      SkipChunks(size_bytes);
    }
  }
  // Copies so many bytes of the stream to `destination`, beyond the end of the
  // innermost message too. Fails at the end of the stream.
  void Copy(uint64_t size_bytes, char* destination);

 private:
  size_t bytes_in_chunk() const { return static_cast<size_t>(end_ - next_); }
  // Sets where the innermost message ends.
  void SetLimit(uint64_t limit) {
    limit_ = limit;
    stop_ = next_ + std::min<uint64_t>(bytes_left(), bytes_in_chunk());
  }
  // Goes on to another chunk. Returns whether the innermost message has more.
  bool NextField() { return position() < limit_ && NextChunk(); }
  // Fails at the end of the stream. REQUIRES: the chunk was read.
  bool NextChunk();
  uint64_t ReadLongNumber();
  // Sets where a message of so many bytes ends, which begins here.
  void BeginMessage(uint64_t size_bytes);
  void ReadChunks(uint64_t size_bytes, std::string* bytes);
  void CheckUtf8(const std::string& text);
  void SkipChunks(uint64_t size_bytes);

  google::protobuf::io::ZeroCopyInputStream& in_;
  const uint8_t* next_ = nullptr;
  const uint8_t* end_ = nullptr;   // of the chunk
  const uint8_t* stop_ = nullptr;  // of the innermost message, within the chunk
  uint64_t chunk_end_ = 0;         // within the stream
  uint64_t limit_;  // of the innermost message; 0 after a failure
  bool ok_ = true;
  absl::Status status_;
};

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_WIRE_READER_H_
