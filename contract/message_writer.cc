#include "contract/message_writer.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "contract/encoding.h"
#include "contract/proto_codec.h"
#include "contract/small_entries.h"
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

// Writes ids of rows, whose elements manifests have too.
template <typename Out>
void WriteField(wire::Tag tag, const RowIds& rows, Out& out) {
  const Tensor& ids = rows.tensor();
  const auto size_bytes = static_cast<size_t>(ids.size_bytes());
  out.Message(tag, [&ids, size_bytes](auto& fields) {
    fields.Number(wire::kTensorDType, static_cast<uint64_t>(ids.dtype()));
    fields.Numbers(wire::kTensorShape, ids.shape().dimensions());
    fields.Bytes(wire::kTensorData,
                 wire::Payload{ids.buffer(), {ids.data(), size_bytes}});
  });
}

template <typename Out>
void Write(const InitEntry& entry, Out& out) {
  out.Bytes(wire::kInitEntryKey, entry.key);
  WriteField(wire::kInitEntryTensor, entry.tensor, out);
}

template <typename Out>
void Write(const SetStateEntry& entry, Out& out) {
  out.Bytes(wire::kSetStateEntryKey, entry.key);
  out.Bytes(wire::kSetStateEntryState, entry.state);
  WriteField(wire::kSetStateEntryTensor, entry.tensor, out);
}

template <typename Out>
void Write(const GetStateEntry& entry, Out& out) {
  out.Bytes(wire::kGetStateEntryKey, entry.key);
  out.Bytes(wire::kGetStateEntryState, entry.state);
}

template <typename Out>
void WriteEncoding(wire::Tag tag, const PushEntry& entry, Out& out) {
  if (entry.encoding) WriteField(tag, entry.encoding->packing(), out);
}

template <typename Out>
void Write(const PushEntry& entry, Out& out) {
  out.Bytes(wire::kPushEntryKey, entry.key);
  out.Number(wire::kPushEntrySkip, entry.skip);
  if (entry.skip) return;
  WriteEncoding(wire::kPushEntryEncoding, entry, out);
  out.Fixed64(wire::kPushEntryWeight, std::bit_cast<uint64_t>(entry.weight));
  WriteTensor(wire::kPushEntryTensor, entry.dtype(), entry.shape(),
              entry.tensor, out);
}

template <typename Out>
void WriteOfRows(const PushEntry& entry, Out& out) {
  out.Bytes(wire::kPushRowsEntryKey, entry.key);
  out.Number(wire::kPushRowsEntrySkip, entry.skip);
  out.Number(wire::kPushRowsEntryUpdateAllRows, entry.update_all_rows);
  if (entry.skip) return;
  WriteEncoding(wire::kPushRowsEntryEncoding, entry, out);
  if (entry.rows) WriteField(wire::kPushRowsEntryRows, *entry.rows, out);
  WriteTensor(wire::kPushRowsEntryTensor, entry.dtype(), entry.shape(),
              entry.tensor, out);
}

template <typename Out>
void Write(const PullEntry& entry, Out& out) {
  out.Bytes(wire::kPullEntryKey, entry.key);
  out.Number(wire::kPullEntryMinVersion, entry.min_version);
}

template <typename Out>
void WriteOfRows(const PullEntry& entry, Out& out) {
  out.Bytes(wire::kPullRowsEntryKey, entry.key);
  out.Number(wire::kPullRowsEntryMinVersion, entry.min_version);
  if (entry.rows) WriteField(wire::kPullRowsEntryRows, *entry.rows, out);
}

template <typename Out>
void Write(const Value& value, Out& out) {
  out.Number(wire::kValueVersion, value.version);
  out.Number(wire::kValueNumContributions, value.num_contributions);
  WriteField(wire::kValueTensor, value.tensor, out);
}

// Writes the fields with which requests begin, under the same numbers in all
// of them.
template <typename Request, typename Out>
void WriteCaller(const Request& request, Out& out) {
  out.Bytes(wire::kNamespace, request.name_space);
  if constexpr (requires { request.call_id; }) {
    WriteField(wire::kCallId, request.call_id, out);
  }
  out.Fixed64(wire::kNamespaceUid, request.namespace_uid);
  if constexpr (requires { request.worker; }) {
    WriteField(wire::kWorker, request.worker, out);
  }
}

// What the caller says in place of what is in a request.
using MaxReplyBytes = std::optional<uint64_t>;

template <typename Out>
void Write(const InitRequest& request, MaxReplyBytes, Out& out) {
  WriteCaller(request, out);
  out.Number(wire::kInitOnExisting, EncodeOnExisting(request.on_existing));
  WriteField(wire::kEntries, request.entries, out);
}

template <typename Out>
void Write(const SetStateRequest& request, MaxReplyBytes, Out& out) {
  WriteCaller(request, out);
  WriteField(wire::kEntries, request.entries, out);
}

template <typename Out>
void WriteAllButEntries(const PushRequest& request, Out& out) {
  WriteCaller(request, out);
  out.Number(wire::kPushStep, request.step);
}

template <typename Out>
void Write(const PushRequest& request, MaxReplyBytes, Out& out) {
  WriteAllButEntries(request, out);
  WriteField(wire::kEntries, request.entries, out);
}

template <typename Entries, typename Out>
void WriteEntriesOfRows(const Entries& entries, Out& out) {
  for (const auto& entry : entries) {
    out.Message(wire::kEntries,
                [&entry](auto& fields) { WriteOfRows(entry, fields); });
  }
}

template <typename Out>
void WriteOfRows(const PushRequest& request, Out& out) {
  WriteAllButEntries(request, out);
  WriteEntriesOfRows(request.entries, out);
}
template <typename Out>
void Write(const PushRowsRequest& request, MaxReplyBytes, Out& out) {
  WriteOfRows(request, out);
}

// Writes what a PushPullRequest has before its push.
template <typename Out>
void WriteAllButPush(const PushPullRequest& request, MaxReplyBytes max,
                     Out& out) {
  out.Number(wire::kMaxReplyBytes, max.value_or(request.max_reply_bytes));
  out.Number(wire::kPullDType, static_cast<uint64_t>(request.dtype));
}

template <typename Out>
void Write(const PushPullRequest& request, MaxReplyBytes max, Out& out) {
  WriteAllButPush(request, max, out);
  out.Message(wire::kPushPullPush, [&request](auto& fields) {
    const PushRequest& push = request;
    Write(push, {}, fields);
  });
}

template <typename Out>
void WriteAllButEntries(const PullRequest& request, MaxReplyBytes max,
                        Out& out) {
  WriteCaller(request, out);
  out.Number(wire::kPullWaitForKeys, request.wait_for_keys);
  out.Number(wire::kMaxReplyBytes, max.value_or(request.max_reply_bytes));
}

template <typename Out>
void Write(const PullRequest& request, MaxReplyBytes max, Out& out) {
  WriteAllButEntries(request, max, out);
  out.Number(wire::kPullDType, static_cast<uint64_t>(request.dtype));
  WriteField(wire::kEntries, request.entries, out);
}

template <typename Out>
void WriteOfRows(const PullRequest& request, MaxReplyBytes max, Out& out) {
  WriteAllButEntries(request, max, out);
  WriteEntriesOfRows(request.entries, out);
}
template <typename Out>
void Write(const PullRowsRequest& request, MaxReplyBytes max, Out& out) {
  WriteOfRows(request, max, out);
}

template <typename Out>
void Write(const GetStateRequest& request, MaxReplyBytes max, Out& out) {
  WriteCaller(request, out);
  out.Number(wire::kMaxReplyBytes, max.value_or(request.max_reply_bytes));
  WriteField(wire::kEntries, request.entries, out);
}

// The only stripe of a call is left out.
template <typename Out>
void WriteStripe(const Stripe& stripe, Out& out) {
  if (stripe == Stripe()) return;
  out.Message(wire::kStripe, [&stripe](auto& fields) {
    fields.Number(wire::kStripeIndex, stripe.index);
    fields.Number(wire::kStripeCount, stripe.count);
    fields.Fixed64(wire::kStripeGroup, stripe.group);
  });
}

// A call of rows is one if an entry has some.
template <typename Request>
bool IsOfRows(const Request& request) {
  return std::any_of(request.entries.begin(), request.entries.end(),
                     [](const auto& entry) { return bool{entry.rows}; });
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

template <typename Out>
void WriteValues(absl::Span<const Value> values, Out& out) {
  for (const Value& value : values) WriteField(wire::kReplyValues, value, out);
}

// --- Many small entries -----------------------------------------------------

EncodedMessage EncodeAllButEntries(const PushRequest& request) {
  return wire::Encode([&](auto& out) { WriteAllButEntries(request, out); });
}

template <typename Request>
std::optional<EncodedMessage> EncodeSmall(const Request&, MaxReplyBytes,
                                          BufferPool*) {
  return std::nullopt;
}
std::optional<EncodedMessage> EncodeSmall(const PushRequest& request,
                                          MaxReplyBytes, BufferPool* pool) {
  return wire::EncodeIfSmall(wire::kEntries, wire::kPushEntryTensor,
                             absl::MakeConstSpan(request.entries),
                             {.fields = EncodeAllButEntries(request)}, pool);
}
std::optional<EncodedMessage> EncodeSmall(const PushPullRequest& request,
                                          MaxReplyBytes max, BufferPool* pool) {
  const auto before = [&](auto& out) { WriteAllButPush(request, max, out); };
  return wire::EncodeIfSmall(wire::kEntries, wire::kPushEntryTensor,
                             absl::MakeConstSpan(request.entries),
                             {.before = wire::Encode(before),
                              .field = wire::kPushPullPush,
                              .fields = EncodeAllButEntries(request)},
                             pool);
}

// Encodes values, in the field `field` of a message if there is one.
EncodedMessage EncodeValues(absl::Span<const Value> values,
                            std::optional<wire::Tag> field) {
  std::optional<EncodedMessage> small = wire::EncodeIfSmall(
      wire::kReplyValues, wire::kValueTensor, values, {.field = field});
  if (small) return *std::move(small);
  return wire::Encode([&](auto& out) {
    if (!field) return WriteValues(values, out);
    out.Message(*field, [&](auto& fields) { WriteValues(values, fields); });
  });
}

// --- Streams ----------------------------------------------------------------

// Encodes a chunk with a manifest, which has the call in the field `tag`.
template <typename WriteCall>
EncodedMessage EncodeManifestOf(wire::Tag tag, const Stripe& stripe,
                                WriteCall write_call) {
  const auto write_manifest = [&](auto& out) {
    if (tag < wire::kStripe) out.Message(tag, write_call);
    WriteStripe(stripe, out);
    if (tag > wire::kStripe) out.Message(tag, write_call);
  };
  return wire::Encode(
      [&](auto& out) { out.Message(wire::kChunkManifest, write_manifest); },
      /*pool=*/nullptr, Elements::kLeftOut);
}

// Encodes a PullStreamRequest with the call in the field `tag`.
template <typename WriteCall>
EncodedMessage EncodePullStreamOf(wire::Tag tag,
                                  const PullStreamOptions& options,
                                  WriteCall write_call, BufferPool* pool) {
  return wire::Encode(
      [&](auto& out) {
        if (tag < wire::kStripe) out.Message(tag, write_call);
        WriteStripe(options.stripe, out);
        out.Number(wire::kPullStreamMaxPartBytes, options.max_part_bytes);
        if (tag == wire::kPullStreamPullRows) out.Message(tag, write_call);
        out.Number(wire::kPullStreamAllowBatches, options.allow_batches);
        if (tag == wire::kPullStreamGetState) out.Message(tag, write_call);
      },
      pool);
}

}  // namespace

template <typename Request>
EncodedMessage EncodeRequest(const Request& request,
                             std::optional<uint64_t> max_reply_bytes,
                             BufferPool* pool) {
  std::optional<EncodedMessage> small =
      EncodeSmall(request, max_reply_bytes, pool);
  if (small) return *std::move(small);
  return wire::Encode([&](auto& out) { Write(request, max_reply_bytes, out); },
                      pool);
}

#define TENSORKV_INSTANTIATE(Request)                   \
  template EncodedMessage EncodeRequest(const Request&, \
                                        std::optional<uint64_t>, BufferPool*)
TENSORKV_INSTANTIATE(InitRequest);
TENSORKV_INSTANTIATE(SetStateRequest);
TENSORKV_INSTANTIATE(PushRequest);
TENSORKV_INSTANTIATE(PushRowsRequest);
TENSORKV_INSTANTIATE(PushPullRequest);
TENSORKV_INSTANTIATE(PullRequest);
TENSORKV_INSTANTIATE(PullRowsRequest);
TENSORKV_INSTANTIATE(GetStateRequest);
#undef TENSORKV_INSTANTIATE

EncodedMessage EncodeManifest(const InitRequest& request,
                              const Stripe& stripe) {
  return EncodeManifestOf(wire::kManifestInit, stripe,
                          [&](auto& out) { Write(request, {}, out); });
}

EncodedMessage EncodeManifest(const SetStateRequest& request,
                              const Stripe& stripe) {
  return EncodeManifestOf(wire::kManifestSetState, stripe,
                          [&](auto& out) { Write(request, {}, out); });
}

EncodedMessage EncodeManifest(const PushRequest& request,
                              const Stripe& stripe) {
  if (IsOfRows(request)) {
    return EncodeManifestOf(wire::kManifestPushRows, stripe,
                            [&](auto& out) { WriteOfRows(request, out); });
  }
  return EncodeManifestOf(wire::kManifestPush, stripe,
                          [&](auto& out) { Write(request, {}, out); });
}

EncodedMessage EncodeManifest(const PushPullRequest& request,
                              const Stripe& stripe) {
  return EncodeManifestOf(wire::kManifestPushPull, stripe,
                          [&](auto& out) { Write(request, {}, out); });
}

EncodedMessage EncodePullStream(const PullRequest& request,
                                const PullStreamOptions& options,
                                BufferPool* pool) {
  if (IsOfRows(request)) {
    return EncodePullStreamOf(
        wire::kPullStreamPullRows, options,
        [&](auto& out) { WriteOfRows(request, {}, out); }, pool);
  }
  return EncodePullStreamOf(
      wire::kPullStreamPull, options,
      [&](auto& out) { Write(request, {}, out); }, pool);
}

EncodedMessage EncodePullStream(const GetStateRequest& request,
                                const PullStreamOptions& options,
                                BufferPool* pool) {
  return EncodePullStreamOf(
      wire::kPullStreamGetState, options,
      [&](auto& out) { Write(request, {}, out); }, pool);
}

// A result takes so few bytes that their room is not measured first.
EncodedMessage EncodePushReply(const PushReply& reply) {
  constexpr size_t kMaxNumberBytes = 1 + 10;
  constexpr size_t kMaxFieldsBytes = 2 * kMaxNumberBytes + 2;
  static_assert(kMaxFieldsBytes < 0x80, "its size takes one byte");
  RefPtr<Buffer> buffer = wire::AllocateBytes(
      reply.results.size() * (2 + kMaxFieldsBytes), /*pool=*/nullptr);
  char* const begin = buffer->mutable_data();
  char* end = begin;
  for (const PushResult& result : reply.results) {
    char* const fields = end + 2;
    char* next =
        wire::WriteNumber(wire::kPushResultVersion, result.version, fields);
    next = wire::WriteNumber(wire::kPushResultStep, result.step, next);
    next = wire::WriteNumber(wire::kPushResultRepeated, result.repeated, next);
    end[0] = static_cast<char>(wire::kPushResults);
    end[1] = static_cast<char>(next - fields);
    end = next;
  }
  EncodedMessage message;
  message.Add(std::move(buffer), begin, end - begin);
  return message;
}

EncodedMessage EncodePullReply(const PullReply& reply) {
  return EncodeValues(reply.values, std::nullopt);
}

EncodedMessage EncodePullBatch(absl::Span<const Value> values) {
  return EncodeValues(values, wire::kChunkBatch);
}

EncodedMessage EncodePullManifest(absl::Span<const Value> values) {
  return wire::Encode(
      [values](auto& out) {
        out.Message(wire::kChunkManifest,
                    [values](auto& fields) { WriteValues(values, fields); });
      },
      /*pool=*/nullptr, Elements::kLeftOut);
}

}  // namespace tensorkv
