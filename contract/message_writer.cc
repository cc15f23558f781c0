#include "contract/message_writer.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "contract/encoding.h"
#include "contract/proto_codec.h"
#include "contract/proto_codec_fields.h"
#include "contract/wire_tags.h"
#include "contract/wire_writer.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

// `Out` is a WireSize or a WireWriter.

template <typename T, typename Out>
void WriteField(wire::Tag tag, const T& value, Out& out);
template <typename T, typename Out>
void WriteField(wire::Tag tag, const std::optional<T>& value, Out& out);
template <typename T, typename Out>
void WriteField(wire::Tag tag, const std::vector<T>& values, Out& out);

template <typename Out>
void Write(const CallId& call_id, Out& out) {
  out.Bytes(wire::kClientId, call_id.client_id);
  out.Number(wire::kSequence, call_id.sequence);
  out.Number(wire::kAnsweredBelow, call_id.answered_below);
}

template <typename Out>
void Write(const Worker& worker, Out& out) {
  out.PresentNumber(wire::kRank, worker.rank);
  out.Number(wire::kEpoch, worker.epoch);
}

// Writes a tensor of that type, whose data are the bytes of `payload`.
template <typename Out>
void WriteTensor(wire::Tag tag, DType dtype, const Shape& shape,
                 const Tensor& payload, Out& out) {
  const auto size_bytes = static_cast<size_t>(payload.size_bytes());
  out.Tensor(tag, dtype, shape,
             wire::Payload{payload.buffer(), {payload.data(), size_bytes}});
}

template <typename Out>
void WriteField(wire::Tag tag, const Tensor& tensor, Out& out) {
  WriteTensor(tag, tensor.dtype(), tensor.shape(), tensor, out);
}

// Writes the message of the packing's kind.
template <typename Out>
void WriteKind(const Packing& packing, Out& out) {
  const auto scale = std::bit_cast<uint32_t>(packing.scale);
  switch (packing.kind) {
    case PackingKind::kTwoBit:
      return out.Fixed32(wire::kTwoBitThreshold, scale);
    case PackingKind::kOneBit:
      return out.Fixed32(wire::kOneBitScale, scale);
    case PackingKind::kTopK:
      return out.Number(wire::kTopKCount, packing.count);
    case PackingKind::kRandomK:
      out.Number(wire::kRandomKBlockSize, packing.block_size);
      return out.Fixed64(wire::kRandomKSeed, packing.seed);
    case PackingKind::kDithering:
      out.Number(wire::kDitheringBits, packing.bits);
      out.Fixed32(wire::kDitheringNorm, scale);
      return out.Number(wire::kDitheringNatural, packing.is_natural);
    case PackingKind::kBlocks:
      out.Number(wire::kBlockElement, packing.element_dtype);
      return out.Number(wire::kBlockSize, packing.block_size);
  }
}

template <typename Out>
void Write(const Packing& packing, Out& out) {
  // The numbers of the kinds are those of the fields.
  const auto tag = static_cast<wire::Tag>(
      wire::kTwoBit + (static_cast<int>(packing.kind) - 1) * (1 << 3));
  out.Message(tag, [&packing](auto& fields) { WriteKind(packing, fields); });
}

template <typename Out>
void Write(const InitEntry& entry, Out& out) {
  out.Bytes(wire::kInitEntryKey, entry.key);
  WriteField(wire::kInitEntryTensor, entry.tensor, out);
}

template <typename Out>
void Write(const PushEntry& entry, Out& out) {
  out.Bytes(wire::kPushEntryKey, entry.key);
  out.Number(wire::kPushEntrySkip, entry.skip);
  if (entry.skip) return;
  if (entry.encoding) {
    WriteField(wire::kPushEntryEncoding, entry.encoding->packing(), out);
  }
  out.Fixed64(wire::kPushEntryWeight, std::bit_cast<uint64_t>(entry.weight));
  WriteTensor(wire::kPushEntryTensor, entry.dtype(), entry.shape(),
              entry.tensor, out);
}

template <typename Out>
void Write(const Value& value, Out& out) {
  out.Number(wire::kValueVersion, value.version);
  out.Number(wire::kValueNumContributions, value.num_contributions);
  WriteField(wire::kValueTensor, value.tensor, out);
}

template <typename Out>
void Write(const InitRequest& request, Out& out) {
  out.Bytes(wire::kInitNamespace, request.name_space);
  WriteField(wire::kInitCallId, request.call_id, out);
  out.Fixed64(wire::kInitNamespaceUid, request.namespace_uid);
  out.Number(wire::kInitOnExisting, EncodeOnExisting(request.on_existing));
  WriteField(wire::kInitEntries, request.entries, out);
}

template <typename Out>
void WriteAllButEntries(const PushRequest& request, Out& out) {
  out.Bytes(wire::kPushNamespace, request.name_space);
  WriteField(wire::kPushCallId, request.call_id, out);
  out.Fixed64(wire::kPushNamespaceUid, request.namespace_uid);
  WriteField(wire::kPushWorker, request.worker, out);
  out.Number(wire::kPushStep, request.step);
}

template <typename Out>
void Write(const PushRequest& request, Out& out) {
  WriteAllButEntries(request, out);
  WriteField(wire::kPushEntries, request.entries, out);
}

// AskedValues holds what a PushPullRequest has before its push.
struct AskedValues {
  uint64_t max_reply_bytes = 0;
  DType dtype = DType::kUnknown;
};

template <typename Out>
void Write(const AskedValues& values, Out& out) {
  out.Number(wire::kPushPullMaxReplyBytes, values.max_reply_bytes);
  out.Number(wire::kPushPullDType, static_cast<uint64_t>(values.dtype));
}

template <typename Out>
void Write(const PullEntry& entry, Out& out) {
  out.Bytes(wire::kPullEntryKey, entry.key);
  out.Number(wire::kPullEntryMinVersion, entry.min_version);
}

template <typename Out>
void WriteAllButEntries(const PullRequest& request, uint64_t max_reply_bytes,
                        Out& out) {
  out.Bytes(wire::kPullNamespace, request.name_space);
  out.Fixed64(wire::kPullNamespaceUid, request.namespace_uid);
  WriteField(wire::kPullWorker, request.worker, out);
  out.Number(wire::kPullWaitForKeys, request.wait_for_keys);
  out.Number(wire::kPullMaxReplyBytes, max_reply_bytes);
  out.Number(wire::kPullDType, static_cast<uint64_t>(request.dtype));
}

template <typename Out>
void Write(const PullReply& reply, Out& out) {
  WriteField(wire::kReplyValues, reply.values, out);
}

template <typename T, typename Out>
void WriteField(wire::Tag tag, const T& value, Out& out) {
  out.Message(tag, [&value](auto& fields) { Write(value, fields); });
}

template <typename T, typename Out>
void WriteField(wire::Tag tag, const std::optional<T>& value, Out& out) {
  if (value) WriteField(tag, *value, out);
}

template <typename T, typename Out>
void WriteField(wire::Tag tag, const std::vector<T>& values, Out& out) {
  for (const T& value : values) WriteField(tag, value, out);
}

template <typename T>
EncodedMessage Encode(const T& value) {
  return wire::Encode([&value](auto& out) { Write(value, out); });
}

// --- Many small entries -----------------------------------------------------

// One piece of memory that is written from its beginning on.
class OnePiece {
 public:
  explicit OnePiece(size_t max_bytes, BufferPool* pool = nullptr) {
    if (pool != nullptr) {
      buffer_ = pool->Allocate(max_bytes).value_or(nullptr);
    }
    if (buffer_) {
      begin_ = buffer_->mutable_data();
      return;
    }
    auto bytes = std::make_unique_for_overwrite<char[]>(max_bytes);
    begin_ = bytes.get();
    buffer_ = MakeRefCounted<AdoptedBuffer>(begin_, max_bytes,
                                            [keep_alive = std::move(bytes)] {});
  }

  char* begin() { return begin_; }

  // Returns the message of what was written up to `end`.
  EncodedMessage Finish(const char* end) && {
    return std::move(*this).Finish(begin_, end);
  }
  EncodedMessage Finish(const char* begin, const char* end) && {
    EncodedMessage message;
    message.Add(std::move(buffer_), begin, end - begin);
    return message;
  }

 private:
  RefPtr<Buffer> buffer_;
  char* begin_ = nullptr;
};

char* Append(const EncodedMessage& message, char* next) {
  for (const EncodedMessage::Piece& piece : message.pieces()) {
    std::memcpy(next, piece.data, piece.size_bytes);
    next += piece.size_bytes;
  }
  return next;
}

// Writes a number, which is left out at its default.
char* WriteNumber(wire::Tag tag, uint64_t number, char* next) {
  if (number == 0) return next;
  *next++ = static_cast<char>(tag);
  return wire::WriteNumber(number, next);
}

size_t BytesOfNumber(uint64_t number) {
  return number == 0 ? 0 : 1 + wire::NumberSize(number);
}

size_t BytesBeforeTensor(const Value& value) {
  return BytesOfNumber(value.version) + BytesOfNumber(value.num_contributions);
}
char* WriteBeforeTensor(const Value& value, char* next) {
  next = WriteNumber(wire::kValueVersion, value.version, next);
  return WriteNumber(wire::kValueNumContributions, value.num_contributions,
                     next);
}

// Returns what a key takes, which is left out if it is empty.
size_t BytesOfKey(const std::string& key) {
  return key.empty() ? 0 : 1 + wire::NumberSize(key.size()) + key.size();
}
char* WriteKey(wire::Tag tag, const std::string& key, char* next) {
  if (key.empty()) return next;
  next = wire::WriteRunHeader(tag, key.size(), next);
  std::memcpy(next, key.data(), key.size());
  return next + key.size();
}

size_t BytesBeforeTensor(const PushEntry& entry) {
  return BytesOfKey(entry.key);
}
char* WriteBeforeTensor(const PushEntry& entry, char* next) {
  return WriteKey(wire::kPushEntryKey, entry.key, next);
}

bool HasOnlyTensor(const Value&) { return true; }
bool HasOnlyTensor(const PushEntry& entry) {
  return !entry.skip && !entry.encoding &&
         std::bit_cast<uint64_t>(entry.weight) == 0;
}

// Entries that have nothing but what comes before their tensor and a tensor
// whose elements are copied: what calls over many keys are made of. They are
// measured and written without a step per field.
template <typename Entry>
class SmallEntries {
 public:
  SmallEntries(wire::Tag tag, wire::Tag tensor_tag,
               absl::Span<const Entry> entries)
      : tag_(tag), tensor_tag_(tensor_tag), entries_(entries) {}

  // Returns what they take; nothing if one of them is not of this kind.
  std::optional<size_t> Measure() {
    size_t bytes = 0;
    for (const Entry& entry : entries_) {
      const size_t size = entry.tensor.size_bytes();
      if (size > wire::kMaxCopiedBytes || !HasOnlyTensor(entry)) {
        return std::nullopt;
      }
      const size_t fields =
          BytesBeforeTensor(entry) + HeaderOf(entry, size).size() + size;
      bytes += 1 + wire::NumberSize(fields) + fields;
    }
    return bytes;
  }

  // Returns what is enough for all of them, which takes less to find; nothing
  // likewise.
  std::optional<size_t> Bound() const {
    static_assert(std::is_same_v<Entry, Value>, "a key has no bound here");
    constexpr size_t kMaxNumberBytes = 10;
    constexpr size_t kVersionBytes = 1 + kMaxNumberBytes;
    constexpr size_t kNumContributionsBytes = 1 + kMaxNumberBytes;
    constexpr size_t kDTypeBytes = 1 + 1;
    constexpr size_t kRunHeaderBytes = 1 + 2;  // a tag and a length
    // The headers are those of the entry, tensor, shape and elements.
    constexpr size_t kMaxFieldBytes = kVersionBytes + kNumContributionsBytes +
                                      kDTypeBytes + 4 * kRunHeaderBytes;
    static_assert(kMaxFieldBytes + kMaxNumberBytes * Shape::kMaxRank +
                          wire::kMaxCopiedBytes <
                      1 << 14,
                  "a length takes two bytes");
    size_t bytes = 0;
    for (const Entry& entry : entries_) {
      const size_t size = entry.tensor.size_bytes();
      if (size > wire::kMaxCopiedBytes || !HasOnlyTensor(entry)) {
        return std::nullopt;
      }
      bytes += kMaxFieldBytes + kMaxNumberBytes * entry.tensor.shape().rank();
      bytes += size;
    }
    return bytes;
  }

  // REQUIRES: they were measured, or their bound was asked for.
  char* Write(char* next) {
    for (const Entry& entry : entries_) {
      const size_t size = entry.tensor.size_bytes();
      const absl::string_view header = HeaderOf(entry, size);
      const size_t fields = BytesBeforeTensor(entry) + header.size() + size;
      next = wire::WriteRunHeader(tag_, fields, next);
      next = WriteBeforeTensor(entry, next);
      std::memcpy(next, header.data(), header.size());
      next += header.size();
      if (size > 0) std::memcpy(next, entry.tensor.data(), size);
      next += size;
    }
    return next;
  }

 private:
  absl::string_view HeaderOf(const Entry& entry, size_t size_bytes) {
    const Tensor& tensor = entry.tensor;
    return header_.Get(tensor_tag_, tensor.dtype(), tensor.shape(), size_bytes);
  }

  const wire::Tag tag_;
  const wire::Tag tensor_tag_;
  const absl::Span<const Entry> entries_;
  wire::TensorHeader header_;
};

// Encodes a PushRequest or, with `values`, a PushPullRequest that has it.
EncodedMessage EncodeAnyPush(const PushRequest& request,
                             const std::optional<AskedValues>& values,
                             BufferPool* pool) {
  SmallEntries entries(wire::kPushEntries, wire::kPushEntryTensor,
                       absl::MakeConstSpan(request.entries));
  const std::optional<size_t> entries_bytes = entries.Measure();
  if (!entries_bytes) {
    if (!values) return Encode(request);
    return wire::Encode([&](auto& out) {
      Write(*values, out);
      WriteField(wire::kPushPullPush, request, out);
    });
  }
  const EncodedMessage before = values ? Encode(*values) : EncodedMessage();
  const EncodedMessage others =
      wire::Encode([&](auto& out) { WriteAllButEntries(request, out); });
  const size_t bytes = others.size_bytes() + *entries_bytes;
  const size_t header_bytes = values ? 1 + wire::NumberSize(bytes) : 0;
  OnePiece piece(before.size_bytes() + header_bytes + bytes, pool);
  char* next = Append(before, piece.begin());
  if (values) next = wire::WriteRunHeader(wire::kPushPullPush, bytes, next);
  return std::move(piece).Finish(entries.Write(Append(others, next)));
}

// Returns what entries take that name a key alone, as those of most pulls do;
// nothing if one of them says more.
std::optional<size_t> MeasureNames(const std::vector<PullEntry>& entries) {
  size_t bytes = 0;
  for (const PullEntry& entry : entries) {
    if (entry.min_version != 0) return std::nullopt;
    const size_t fields = BytesOfKey(entry.key);
    bytes += 1 + wire::NumberSize(fields) + fields;
  }
  return bytes;
}

// REQUIRES: they were measured.
char* WriteNames(const std::vector<PullEntry>& entries, char* next) {
  for (const PullEntry& entry : entries) {
    next =
        wire::WriteRunHeader(wire::kPullEntries, BytesOfKey(entry.key), next);
    next = WriteKey(wire::kPullEntryKey, entry.key, next);
  }
  return next;
}

// Encodes a PullRequest, or one in the field `tag` of another message.
EncodedMessage EncodeAnyPull(std::optional<wire::Tag> tag,
                             const PullRequest& request,
                             uint64_t max_reply_bytes, BufferPool* pool) {
  const auto write_others = [&request, max_reply_bytes](auto& out) {
    WriteAllButEntries(request, max_reply_bytes, out);
  };
  const std::optional<size_t> names_bytes = MeasureNames(request.entries);
  if (!names_bytes) {
    const auto write = [&](auto& out) {
      write_others(out);
      WriteField(wire::kPullEntries, request.entries, out);
    };
    if (!tag) return wire::Encode(write);
    return wire::Encode([&](auto& out) { out.Message(*tag, write); });
  }
  const EncodedMessage others = wire::Encode(write_others);
  const size_t bytes = others.size_bytes() + *names_bytes;
  OnePiece piece(bytes + (tag ? 1 + wire::NumberSize(bytes) : 0), pool);
  char* next = piece.begin();
  if (tag) next = wire::WriteRunHeader(*tag, bytes, next);
  char* const names = Append(others, next);
  return std::move(piece).Finish(WriteNames(request.entries, names));
}

}  // namespace

EncodedMessage EncodeInit(const InitRequest& request) {
  return Encode(request);
}

EncodedMessage EncodePush(const PushRequest& request, BufferPool* pool) {
  return EncodeAnyPush(request, std::nullopt, pool);
}

EncodedMessage EncodePushPull(const PushPullRequest& request,
                              uint64_t max_reply_bytes, BufferPool* pool) {
  return EncodeAnyPush(request, AskedValues{max_reply_bytes, request.dtype},
                       pool);
}

// A result takes so few bytes that their room is not measured first.
EncodedMessage EncodePushReply(const PushReply& reply) {
  constexpr size_t kMaxNumberBytes = 1 + 10;
  constexpr size_t kMaxFieldsBytes = 2 * kMaxNumberBytes + 2;
  static_assert(kMaxFieldsBytes < 0x80, "its size takes one byte");
  OnePiece piece(reply.results.size() * (2 + kMaxFieldsBytes));
  char* end = piece.begin();
  for (const PushResult& result : reply.results) {
    char* const fields = end + 2;
    char* next = WriteNumber(wire::kPushResultVersion, result.version, fields);
    next = WriteNumber(wire::kPushResultStep, result.step, next);
    next = WriteNumber(wire::kPushResultRepeated, result.repeated, next);
    end[0] = static_cast<char>(wire::kPushResults);
    end[1] = static_cast<char>(next - fields);
    end = next;
  }
  return std::move(piece).Finish(end);
}

EncodedMessage EncodePull(const PullRequest& request, uint64_t max_reply_bytes,
                          BufferPool* pool) {
  return EncodeAnyPull(std::nullopt, request, max_reply_bytes, pool);
}

EncodedMessage EncodePullStream(const PullStreamRequest& request,
                                BufferPool* pool) {
  const auto& pull = std::get<PullRequest>(request.request);
  EncodedMessage message =
      EncodeAnyPull(wire::kPullStreamPull, pull, pull.max_reply_bytes, pool);
  const EncodedMessage others = wire::Encode([&request](auto& out) {
    out.Number(wire::kPullStreamMaxPartBytes, request.max_part_bytes);
    out.Number(wire::kPullStreamAllowBatches, request.allow_batches);
  });
  for (const EncodedMessage::Piece& piece : others.pieces()) {
    message.Add(piece.buffer, piece.data, piece.size_bytes);
  }
  return message;
}

EncodedMessage EncodePullReply(const PullReply& reply) {
  SmallEntries values(wire::kReplyValues, wire::kValueTensor,
                      absl::MakeConstSpan(reply.values));
  const std::optional<size_t> bytes = values.Bound();
  if (!bytes) return Encode(reply);
  OnePiece piece(*bytes);
  return std::move(piece).Finish(values.Write(piece.begin()));
}

EncodedMessage EncodePullBatch(absl::Span<const Value> values) {
  SmallEntries small(wire::kReplyValues, wire::kValueTensor, values);
  const std::optional<size_t> bytes = small.Bound();
  if (!bytes) {
    return wire::Encode([values](auto& out) {
      out.Message(wire::kChunkBatch, [values](auto& fields) {
        for (const Value& value : values) {
          WriteField(wire::kReplyValues, value, fields);
        }
      });
    });
  }
  // The size is known when the values are written; it goes before them.
  constexpr size_t kMaxHeaderBytes = 1 + 10;
  OnePiece piece(kMaxHeaderBytes + *bytes);
  char* const begin = piece.begin() + kMaxHeaderBytes;
  char* const end = small.Write(begin);
  const size_t size = end - begin;
  char* const header = begin - 1 - wire::NumberSize(size);
  wire::WriteRunHeader(wire::kChunkBatch, size, header);
  return std::move(piece).Finish(header, end);
}

}  // namespace tensorkv
