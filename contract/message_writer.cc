#include "contract/message_writer.h"

#include <bit>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "contract/encoding.h"
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
}

template <typename Out>
void Write(const Worker& worker, Out& out) {
  out.PresentNumber(wire::kRank, worker.rank);
  out.Number(wire::kEpoch, worker.epoch);
}

// A tensor of that type, whose data are the bytes of `payload`.
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

// The message of the packing's kind.
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
  out.Bytes(wire::kInitEntryState, entry.state);
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
void Write(const PushRequest& request, uint64_t max_reply_bytes, Out& out) {
  out.Bytes(wire::kPushNamespace, request.name_space);
  WriteField(wire::kPushCallId, request.call_id, out);
  out.Fixed64(wire::kPushNamespaceUid, request.namespace_uid);
  WriteField(wire::kPushWorker, request.worker, out);
  out.Number(wire::kPushStep, request.step);
  out.Number(wire::kPushMaxReplyBytes, max_reply_bytes);
  out.Number(wire::kPushReplyDType, static_cast<uint64_t>(request.reply_dtype));
  WriteField(wire::kPushEntries, request.entries, out);
}

template <typename Out>
void Write(const PushRequest& request, Out& out) {
  Write(request, request.max_reply_bytes, out);
}

template <typename Out>
void Write(const PushResult& result, Out& out) {
  out.Number(wire::kPushResultVersion, result.version);
  out.Number(wire::kPushResultStep, result.step);
  out.Number(wire::kPushResultRepeated, result.repeated);
}

template <typename Out>
void Write(const PushReply& reply, Out& out) {
  WriteField(wire::kPushResults, reply.results, out);
}

template <typename Out>
void Write(const PullEntry& entry, Out& out) {
  out.Bytes(wire::kPullEntryKey, entry.key);
  out.Number(wire::kPullEntryMinVersion, entry.min_version);
  out.Bytes(wire::kPullEntryState, entry.state);
}

template <typename Out>
void Write(const PullRequest& request, uint64_t max_reply_bytes, Out& out) {
  out.Bytes(wire::kPullNamespace, request.name_space);
  out.Fixed64(wire::kPullNamespaceUid, request.namespace_uid);
  WriteField(wire::kPullWorker, request.worker, out);
  out.Number(wire::kPullWaitForKeys, request.wait_for_keys);
  out.Number(wire::kPullMaxReplyBytes, max_reply_bytes);
  out.Number(wire::kPullDType, static_cast<uint64_t>(request.dtype));
  WriteField(wire::kPullEntries, request.entries, out);
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

}  // namespace

EncodedMessage EncodeInit(const InitRequest& request) {
  return Encode(request);
}

EncodedMessage EncodePush(const PushRequest& request) {
  return Encode(request);
}

EncodedMessage EncodePushPull(const PushRequest& request,
                              uint64_t max_reply_bytes) {
  return wire::Encode([&request, max_reply_bytes](auto& out) {
    out.Message(wire::kPushPullPush,
                [&](auto& fields) { Write(request, max_reply_bytes, fields); });
  });
}

EncodedMessage EncodePushReply(const PushReply& reply) { return Encode(reply); }

EncodedMessage EncodePull(const PullRequest& request,
                          uint64_t max_reply_bytes) {
  return wire::Encode([&request, max_reply_bytes](auto& out) {
    Write(request, max_reply_bytes, out);
  });
}

EncodedMessage EncodePullReply(const PullReply& reply) { return Encode(reply); }

}  // namespace tensorkv
