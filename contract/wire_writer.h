// Writes protobuf's wire format.

#ifndef TENSORKV_CONTRACT_WIRE_WRITER_H_
#define TENSORKV_CONTRACT_WIRE_WRITER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "contract/encoded_message.h"
#include "contract/wire_tags.h"
#include "tensor/buffer.h"
#include "tensor/buffer_pool.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tensorkv::wire {

// Payloads up to this size are copied beside the metadata. A piece of its own
// costs a transport an allocation, several atomic operations and an entry in
// the system call's vector. Calls with tensors of 4 KiB are a tenth faster with
// such pieces, with tensors of 2 KiB a tenth slower.
inline constexpr size_t kMaxCopiedBytes = 2048;

// Returns how many bytes a varint takes, 1 to 10.
inline size_t NumberSize(uint64_t number) {
  const int bits = 64 - __builtin_clzll(number | 1);
  return static_cast<size_t>(bits + 6) / 7;
}

// Write to `next`, where there is memory enough; return the end of what they
// have written.
inline char* WriteNumber(uint64_t number, char* next) {
  for (; number >= 0x80; number >>= 7) {
    *next++ = static_cast<char>(number | 0x80);
  }
  *next++ = static_cast<char>(number);
  return next;
}
inline char* WriteRunHeader(Tag tag, uint64_t size_bytes, char* next) {
  *next++ = static_cast<char>(tag);
  return WriteNumber(size_bytes, next);
}

// Bytes of `buffer`, which keeps them alive.
struct Payload {
  const RefPtr<Buffer>& buffer;
  absl::string_view bytes;
};

// Makes what a field that is a tensor has before its elements, from its tag on,
// and keeps the latest: most tensors of a call are of one type. Not
// thread-safe.
class TensorHeader {
 public:
  // Returns the bytes before the `size_bytes` bytes of elements. They are valid
  // until the next call.
  absl::string_view Get(Tag tag, DType dtype, const Shape& shape,
                        size_t size_bytes) {
    if (tag != tag_ || dtype != dtype_ || size_bytes != elements_bytes_ ||
        !IsSame(shape)) {
      Make(tag, dtype, shape, size_bytes);
    }
    return {bytes_.data(), size_};
  }

 private:
  // A tag and a length each for the tensor, its shape and its elements, the
  // dtype, and the dimensions.
  static constexpr size_t kMaxBytes = 3 * 11 + 2 + Shape::kMaxRank * 10;

  // Most have one dimension or two: a comparison of memory would take longer.
  bool IsSame(const Shape& shape) const {
    bool is_same = shape.rank() == shape_.rank();
    for (int i = 0; is_same && i < shape.rank(); ++i) {
      is_same = shape.dimensions()[i] == shape_.dimensions()[i];
    }
    return is_same;
  }
  void Make(Tag tag, DType dtype, const Shape& shape, size_t size_bytes);

  Tag tag_ = 0;
  DType dtype_ = DType::kUnknown;
  Shape shape_;
  size_t elements_bytes_ = 0;
  std::array<char, kMaxBytes> bytes_;
  size_t size_ = 0;
};

// What a request says of the size of its reply: data.proto explains the fields.
struct ReplyBounds {
  uint64_t max_reply_bytes = 0;
  uint64_t ticket_from_bytes = 0;
};

// Writes a message from its end to its beginning: the last field first, so that
// the length of what is in a field is known when its tag is written. Fields at
// their defaults are left out, as the generated serializer leaves them out.
//
// Not thread-safe.
class WireWriter {
 public:
  struct Options {
    // What is copied beside the metadata, and the metadata; where they take
    // more, they get more memory, in other pieces.
    size_t likely_bytes = 256;
    // Where memory is from; null: from the ordinary heap. A HostBuffer's
    // alignment is of no use here, and small ones would waste most of it.
    BufferPool* pool = nullptr;
    Elements elements = Elements::kPresent;
    // Take the place of those that a request has on its reply.
    std::optional<ReplyBounds> reply_bounds;
  };

  explicit WireWriter(const Options& options);

  const Options& options() const { return options_; }

  void Number(Tag tag, uint64_t number) {
    if (number != 0) PresentNumber(tag, number);
  }
  // Is written even if the number is 0.
  void PresentNumber(Tag tag, uint64_t number) {
    // Almost all numbers have one byte or two.
    if (number >= 0x4000) return LongNumber(tag, number);
    const bool has_two = number >= 0x80;
    char* const begin = Take(has_two ? 3 : 2);
    begin[0] = static_cast<char>(tag);
    begin[1] = static_cast<char>(has_two ? number | 0x80 : number);
    if (has_two) begin[2] = static_cast<char>(number >> 7);
  }
  // Writes a number of 8 or 4 bytes.
  template <typename Bits>
  void Fixed(Tag tag, Bits number) {
    if (number != 0) PresentFixed(tag, number);
  }
  // Is written even if the number is 0.
  template <typename Bits>
  void PresentFixed(Tag tag, Bits number) {
    char* const begin = Take(sizeof(tag) + sizeof(number));
    *begin = static_cast<char>(tag);
    std::memcpy(begin + 1, &number, sizeof(number));
  }
  void Bytes(Tag tag, absl::string_view bytes) {
    if (bytes.empty()) return;
    Copy(bytes);
    WriteRunHeader(tag, bytes.size());
  }
  void Bytes(Tag tag, const Payload& payload) {
    if (payload.bytes.empty()) return;
    WritePayload(payload);
    WriteRunHeader(tag, payload.bytes.size());
  }
  // Writes a field that has the bytes of all payloads, one after another.
  void Bytes(Tag tag, absl::Span<const Payload> payloads) {
    size_t size = 0;
    for (auto next = payloads.rbegin(); next != payloads.rend(); ++next) {
      size += next->bytes.size();
      if (!next->bytes.empty()) WritePayload(*next);
    }
    if (size > 0) WriteRunHeader(tag, size);
  }
  // Writes a field that is a tensor, whose elements are `payload`.
  void Tensor(Tag tag, DType dtype, const Shape& shape, const Payload& payload,
              Elements elements) {
    const size_t size =
        elements == Elements::kPresent ? payload.bytes.size() : 0;
    if (size > 0) WritePayload(payload);
    Copy(header_.Get(tag, dtype, shape, size));
  }
  // Writes a field that is a message, whose fields `write_fields` writes. It is
  // written even when empty.
  template <typename WriteFields>
  void Message(Tag tag, WriteFields write_fields) {
    const size_t bytes_after = size_bytes();
    write_fields();
    WriteRunHeader(tag, size_bytes() - bytes_after);
  }

  // Writes bytes that are fields already.
  void Copy(absl::string_view bytes) {
    std::memcpy(Take(bytes.size()), bytes.data(), bytes.size());
  }

  // Returns the message.
  EncodedMessage Finish() &&;

 private:
  size_t size_bytes() const { return pieces_bytes_ + (end_ - next_); }
  // Returns memory for what comes before all that is written.
  char* Take(size_t size_bytes) {
    const auto headroom = static_cast<size_t>(next_ - begin_);
    if (ABSL_PREDICT_FALSE(size_bytes > headroom)) Grow(size_bytes);
    next_ -= size_bytes;
    return next_;
  }
  void WriteRunHeader(Tag tag, uint64_t size_bytes) {
    PresentNumber(tag, size_bytes);
  }
  void LongNumber(Tag tag, uint64_t number);
  // Copies the bytes, or makes a piece that references them, as kMaxCopiedBytes
  // says.
  void WritePayload(const Payload& payload) {
    if (payload.bytes.size() <= kMaxCopiedBytes) return Copy(payload.bytes);
    EndPiece();
    AddPiece(payload.buffer, payload.bytes);
  }
  // Makes a piece of what was copied since the last piece.
  void EndPiece();
  void AddPiece(const RefPtr<Buffer>& buffer, absl::string_view bytes);
  // Goes on in new memory, of at least so many bytes.
  void Grow(size_t size_bytes);

  const Options options_;
  std::vector<EncodedMessage::Piece> pieces_;  // the last one first
  size_t pieces_bytes_ = 0;
  RefPtr<Buffer> copied_;  // what is not referenced
  char* begin_ = nullptr;  // of `copied_`
  char* next_ = nullptr;   // where what is written begins
  char* end_ = nullptr;    // of the next piece
  TensorHeader header_;
};

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_WIRE_WRITER_H_
