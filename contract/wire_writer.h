// Writes protobuf's wire format in two passes: WireSize measures, WireWriter
// then writes into one buffer of exactly that size. Both take the same calls,
// so one template describes a message for both. Fields at their defaults are
// left out, as the generated serializer leaves them out.

#ifndef TENSORKV_CONTRACT_WIRE_WRITER_H_
#define TENSORKV_CONTRACT_WIRE_WRITER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

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
inline size_t NumbersSize(absl::Span<const int64_t> numbers) {
  size_t size = 0;
  for (int64_t number : numbers) size += NumberSize(number);
  return size;
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

// Returns memory of so many bytes, from `pool` if there is one. It is on the
// ordinary heap otherwise: a HostBuffer's alignment is of no use here, and
// small ones would waste most of it.
RefPtr<Buffer> AllocateBytes(size_t size_bytes, BufferPool* pool);

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

// Measures a message, and the messages in it. The methods without a return
// value each take one field. Not thread-safe.
class WireSize {
 public:
  explicit WireSize(Elements elements = Elements::kPresent)
      : elements_(elements) {}

  // Says whether tensors are to have their elements.
  Elements elements() const { return elements_; }
  uint64_t total_bytes() const { return total_bytes_; }
  // Returns the size without the payloads that are referenced.
  uint64_t copied_bytes() const { return copied_bytes_; }
  // Returns the lengths of the messages within, in the order in which they
  // begin.
  absl::Span<const uint64_t> lengths() const { return lengths_; }

  void Number(Tag tag, uint64_t number) {
    if (number != 0) PresentNumber(tag, number);
  }
  // Is written even if the number is 0.
  void PresentNumber(Tag tag, uint64_t number) {
    Add(sizeof(tag) + NumberSize(number));
  }
  void Fixed64(Tag tag, uint64_t number) {
    if (number != 0) Add(sizeof(tag) + sizeof(number));
  }
  void Fixed32(Tag tag, uint32_t number) {
    if (number != 0) Add(sizeof(tag) + sizeof(number));
  }
  void Bytes(Tag, absl::string_view bytes) {
    if (!bytes.empty()) AddRun(bytes.size(), bytes.size());
  }
  void Numbers(Tag, absl::Span<const int64_t> numbers) {
    const size_t size = NumbersSize(numbers);
    if (size > 0) AddRun(size, size);
  }
  void Bytes(Tag, const Payload& payload) {
    const size_t size = payload.bytes.size();
    if (size > 0) AddRun(size, size > kMaxCopiedBytes ? 0 : size);
  }
  // Takes a field that is a tensor, whose elements are `payload`.
  void Tensor(Tag tag, DType dtype, const Shape& shape,
              const Payload& payload) {
    const size_t size =
        elements_ == Elements::kPresent ? payload.bytes.size() : 0;
    Add(header_.Get(tag, dtype, shape, size).size());
    total_bytes_ += size;
    copied_bytes_ += size > kMaxCopiedBytes ? 0 : size;
  }
  // Takes a field that is a message, whose fields `write_fields` writes to its
  // argument. It is written even when empty.
  template <typename WriteFields>
  void Message(Tag, WriteFields write_fields) {
    const size_t index = lengths_.size();
    const uint64_t bytes_before = total_bytes_;
    lengths_.push_back(0);
    write_fields(*this);
    lengths_[index] = total_bytes_ - bytes_before;
    Add(sizeof(Tag) + NumberSize(lengths_[index]));
  }

 private:
  void Add(uint64_t bytes) {
    total_bytes_ += bytes;
    copied_bytes_ += bytes;
  }
  void AddRun(uint64_t total_bytes, uint64_t copied_bytes) {
    Add(sizeof(Tag) + NumberSize(total_bytes));
    total_bytes_ += total_bytes;
    copied_bytes_ += copied_bytes;
  }

  const Elements elements_;
  uint64_t total_bytes_ = 0;
  uint64_t copied_bytes_ = 0;
  std::vector<uint64_t> lengths_;
  TensorHeader header_;
};

// Not thread-safe.
class WireWriter {
 public:
  // `size` must outlive the writer.
  // REQUIRES: the calls that follow are those that `size` measured.
  explicit WireWriter(const WireSize& size, BufferPool* pool = nullptr);

  void Number(Tag tag, uint64_t number) {
    if (number != 0) PresentNumber(tag, number);
  }
  void PresentNumber(Tag tag, uint64_t number) {
    WriteTag(tag);
    WriteNumber(number);
  }
  void Fixed64(Tag tag, uint64_t number);
  void Fixed32(Tag tag, uint32_t number);
  void Bytes(Tag tag, absl::string_view bytes);
  void Numbers(Tag tag, absl::Span<const int64_t> numbers);
  void Bytes(Tag tag, const Payload& payload);
  void Tensor(Tag tag, DType dtype, const Shape& shape, const Payload& payload);
  template <typename WriteFields>
  void Message(Tag tag, WriteFields write_fields) {
    WriteRunHeader(tag, *next_length_++);
    write_fields(*this);
  }

  // Returns the message.
  EncodedMessage Finish() &&;

 private:
  void WriteTag(Tag tag) { *next_++ = static_cast<char>(tag); }
  void WriteNumber(uint64_t number) {
    next_ = wire::WriteNumber(number, next_);
  }
  void WriteRunHeader(Tag tag, uint64_t size_bytes) {
    next_ = wire::WriteRunHeader(tag, size_bytes, next_);
  }
  void Copy(absl::string_view bytes) {
    std::memcpy(next_, bytes.data(), bytes.size());
    next_ += bytes.size();
  }
  // Copies the bytes, or makes a piece that references them, as kMaxCopiedBytes
  // says.
  void WritePayload(const Payload& payload);
  // Makes a piece of what was copied since the last piece.
  void EndPiece();

  const Elements elements_;
  EncodedMessage message_;
  RefPtr<Buffer> copied_;  // what is not referenced
  const char* piece_;      // where the next piece begins
  char* next_;
  const uint64_t* next_length_;
  TensorHeader header_;
};

// Returns the message whose fields `write_fields` writes to its argument. Calls
// it twice, with a WireSize and with a WireWriter, so that it must write the
// same both times. What is copied is in memory from `pool`, if there is one.
template <typename WriteFields>
EncodedMessage Encode(WriteFields write_fields, BufferPool* pool = nullptr,
                      Elements elements = Elements::kPresent) {
  WireSize size(elements);
  write_fields(size);
  WireWriter writer(size, pool);
  write_fields(writer);
  return std::move(writer).Finish();
}

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_WIRE_WRITER_H_
