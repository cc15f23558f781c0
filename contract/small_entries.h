// Writes many small entries in one piece, without a step per field.

#ifndef TENSORKV_CONTRACT_SMALL_ENTRIES_H_
#define TENSORKV_CONTRACT_SMALL_ENTRIES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "contract/data_requests.h"
#include "contract/encoded_message.h"
#include "contract/wire_tags.h"
#include "contract/wire_writer.h"
#include "tensor/buffer_pool.h"
#include "tensor/tensor.h"

namespace tensorkv::wire {

// Writes a number, which is left out at its default.
inline char* WriteNumber(Tag tag, uint64_t number, char* next) {
  if (number == 0) return next;
  *next++ = static_cast<char>(tag);
  return WriteNumber(number, next);
}

inline size_t BytesOfNumber(uint64_t number) {
  return number == 0 ? 0 : 1 + NumberSize(number);
}

inline size_t BytesBeforeTensor(const Value& value) {
  return BytesOfNumber(value.version) + BytesOfNumber(value.num_contributions);
}
inline char* WriteBeforeTensor(const Value& value, char* next) {
  next = WriteNumber(kValueVersion, value.version, next);
  return WriteNumber(kValueNumContributions, value.num_contributions, next);
}

// Returns what a key takes, which is left out if it is empty.
inline size_t BytesOfKey(const std::string& key) {
  return key.empty() ? 0 : 1 + NumberSize(key.size()) + key.size();
}
inline char* WriteKey(Tag tag, const std::string& key, char* next) {
  if (key.empty()) return next;
  next = WriteRunHeader(tag, key.size(), next);
  std::memcpy(next, key.data(), key.size());
  return next + key.size();
}

inline size_t BytesBeforeTensor(const PushEntry& entry) {
  return BytesOfKey(entry.key);
}
inline char* WriteBeforeTensor(const PushEntry& entry, char* next) {
  return WriteKey(kPushEntryKey, entry.key, next);
}

inline bool HasOnlyTensor(const Value&) { return true; }
inline bool HasOnlyTensor(const PushEntry& entry) {
  return !entry.skip && !entry.encoding &&
         std::bit_cast<uint64_t>(entry.weight) == 0;
}

// Bounds what the entry takes with all headers; nothing if it has more than
// what comes before its tensor and a tensor whose elements are copied.
inline std::optional<size_t> BoundOf(const Tensor& tensor,
                                     size_t before_tensor) {
  constexpr size_t kMaxNumberBytes = 10;
  constexpr size_t kDTypeBytes = 1 + 1;
  constexpr size_t kRunHeaderBytes = 1 + 2;  // a tag and a length
  static_assert(
      2 * kMaxCopiedBytes + kMaxNumberBytes * (3 + Shape::kMaxRank) < 1 << 14,
      "a length takes two bytes");
  const size_t size = tensor.size_bytes();
  if (size > kMaxCopiedBytes) return std::nullopt;
  // The headers are those of the entry, tensor, shape and elements.
  return before_tensor + kDTypeBytes + 4 * kRunHeaderBytes +
         kMaxNumberBytes * tensor.shape().rank() + size;
}
inline std::optional<size_t> BoundOf(const Value& value) {
  constexpr size_t kMaxNumbersBytes = 2 * (1 + 10);
  return BoundOf(value.tensor, kMaxNumbersBytes);
}
inline std::optional<size_t> BoundOf(const PushEntry& entry) {
  if (entry.skip || entry.encoding || entry.key.size() > kMaxCopiedBytes ||
      std::bit_cast<uint64_t>(entry.weight) != 0) {
    return std::nullopt;
  }
  return BoundOf(entry.tensor, 1 + 2 + entry.key.size());
}

template <typename Entry>
char* WriteSmallEntries(Tag tag, Tag tensor_tag,
                        absl::Span<const Entry> entries, char* next) {
  TensorHeader headers;
  for (const Entry& entry : entries) {
    const Tensor& tensor = entry.tensor;
    const size_t size = tensor.size_bytes();
    const absl::string_view header =
        headers.Get(tensor_tag, tensor.dtype(), tensor.shape(), size);
    const size_t fields = BytesBeforeTensor(entry) + header.size() + size;
    next = WriteRunHeader(tag, fields, next);
    next = WriteBeforeTensor(entry, next);
    std::memcpy(next, header.data(), header.size());
    next += header.size();
    if (size > 0) std::memcpy(next, tensor.data(), size);
    next += size;
  }
  return next;
}

inline char* Append(const EncodedMessage& message, char* next) {
  for (const EncodedMessage::Piece& piece : message.pieces()) {
    std::memcpy(next, piece.data, piece.size_bytes);
    next += piece.size_bytes;
  }
  return next;
}

// What a message has besides its entries: `before`, and then, in the field
// `field` if there is one, `fields` and the entries.
struct AroundEntries {
  EncodedMessage before;
  std::optional<Tag> field;
  EncodedMessage fields;
};

// Encodes a message in one piece, of memory from `pool` if there is one;
// nothing if one of the entries, which are fields `tag` with a tensor in
// `tensor_tag`, is not small. Calls over many keys are made of such entries.
// The memory is enough for what they may take, and what comes before them is
// written when their size is known.
template <typename Entry>
std::optional<EncodedMessage> EncodeIfSmall(Tag tag, Tag tensor_tag,
                                            absl::Span<const Entry> entries,
                                            const AroundEntries& around,
                                            BufferPool* pool = nullptr) {
  constexpr size_t kMaxHeaderBytes = 1 + 10;
  const size_t before_bytes = around.before.size_bytes() + kMaxHeaderBytes;
  size_t bytes = before_bytes + around.fields.size_bytes();
  for (const Entry& entry : entries) {
    const std::optional<size_t> bound = BoundOf(entry);
    if (!bound) return std::nullopt;
    bytes += *bound;
  }
  RefPtr<Buffer> buffer = AllocateBytes(bytes, pool);
  char* begin = buffer->mutable_data() + before_bytes;
  const char* const end =
      WriteSmallEntries(tag, tensor_tag, entries, Append(around.fields, begin));
  if (around.field) {
    const size_t size = end - begin;
    begin -= 1 + NumberSize(size);
    WriteRunHeader(*around.field, size, begin);
  }
  begin -= around.before.size_bytes();
  Append(around.before, begin);
  EncodedMessage message;
  message.Add(std::move(buffer), begin, end - begin);
  return message;
}

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_SMALL_ENTRIES_H_
