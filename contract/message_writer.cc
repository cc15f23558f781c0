#include "contract/message_writer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "contract/message_fields.h"
#include "contract/wire_writer.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

using wire::FieldsOf;
using wire::RunTag;
using wire::WireWriter;

// Returns what a message with these entries takes, without payloads that are
// referenced, unless they are unusual.
template <typename Entry>
size_t LikelyBytes(absl::Span<const Entry> entries, Elements elements) {
  constexpr size_t kBesideEntries = 256;
  constexpr bool kHasTensor = requires(const Entry& entry) { entry.tensor; };
  size_t bytes = kBesideEntries + entries.size() * (kHasTensor ? 48 : 16);
  for (const Entry& entry : entries) {
    if constexpr (requires { entry.key; }) bytes += entry.key.size();
    if constexpr (kHasTensor) {
      const size_t size = entry.tensor.size_bytes();
      const bool is_copied =
          elements == Elements::kPresent && size <= wire::kMaxCopiedBytes;
      if (is_copied) bytes += size;
    }
  }
  return bytes;
}

// Returns the message that `write` writes, with these entries.
template <typename Entries, typename Write>
EncodedMessage Encode(const Entries& entries, WireWriter::Options options,
                      Write write) {
  options.likely_bytes =
      LikelyBytes(absl::MakeConstSpan(entries), options.elements);
  WireWriter out(options);
  write(out);
  return std::move(out).Finish();
}

// Encodes a chunk with a manifest, which has the call in the field `kNumber`:
// one with the fields of `Call`, which is that of `request`.
template <int kNumber, typename Call, typename Request>
EncodedMessage EncodeManifestOf(const Request& request, const Stripe& stripe) {
  return Encode(request.entries, {.elements = Elements::kLeftOut},
                [&](WireWriter& out) {
                  const auto write_call = [&] {
                    out.Message(RunTag(kNumber),
                                [&] { FieldsOf<Call>::Write(request, out); });
                  };
                  out.Message(wire::kChunkManifest, [&] {
                    if (kNumber > wire::kStripeNumber) write_call();
                    wire::WriteStripe(stripe, out);
                    if (kNumber < wire::kStripeNumber) write_call();
                  });
                });
}

// Encodes a PullStreamRequest with the call in the field `kNumber`.
template <int kNumber, typename Call, typename Request>
EncodedMessage EncodePullStreamOf(const Request& request,
                                  const PullStreamOptions& options,
                                  BufferPool* pool) {
  using Proto = v1::PullStreamRequest;
  return Encode(request.entries, {.pool = pool}, [&](WireWriter& out) {
    const auto write_call_if = [&](bool is_next) {
      if (!is_next) return;
      out.Message(RunTag(kNumber),
                  [&] { FieldsOf<Call>::Write(request, out); });
    };
    write_call_if(kNumber > Proto::kAllowBatchesFieldNumber);
    out.Number(wire::NumberTag(Proto::kAllowBatchesFieldNumber),
               options.allow_batches);
    write_call_if(kNumber == Proto::kPullRowsFieldNumber);
    out.Number(wire::NumberTag(Proto::kMaxPartBytesFieldNumber),
               options.max_part_bytes);
    wire::WriteStripe(options.stripe, out);
    write_call_if(kNumber < wire::kStripeNumber);
  });
}

// A call of rows is one if an entry has some.
template <typename Request>
bool IsOfRows(const Request& request) {
  return std::any_of(request.entries.begin(), request.entries.end(),
                     [](const auto& entry) { return bool{entry.rows}; });
}

void WriteValues(absl::Span<const Value> values, uint64_t snapshot_number,
                 WireWriter& out) {
  wire::WriteEntries<wire::ValueFields>(
      RunTag(v1::PullResponse::kValuesFieldNumber), values, out);
  out.Number(wire::NumberTag(v1::PullResponse::kSnapshotNumberFieldNumber),
             snapshot_number);
}

// Encodes a PullChunk with values in the field `tag`.
EncodedMessage EncodePullChunk(wire::Tag tag, absl::Span<const Value> values,
                               uint64_t snapshot_number, Elements elements) {
  return Encode(values, {.elements = elements}, [&](WireWriter& out) {
    out.Message(tag, [&] { WriteValues(values, snapshot_number, out); });
  });
}

}  // namespace

template <typename Request>
EncodedMessage EncodeRequest(const Request& request,
                             std::optional<uint64_t> max_reply_bytes,
                             BufferPool* pool) {
  return Encode(
      request.entries, {.pool = pool, .max_reply_bytes = max_reply_bytes},
      [&](WireWriter& out) { FieldsOf<Request>::Write(request, out); });
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
  return EncodeManifestOf<v1::InitManifest::kInitFieldNumber, InitRequest>(
      request, stripe);
}

EncodedMessage EncodeManifest(const SetStateRequest& request,
                              const Stripe& stripe) {
  return EncodeManifestOf<v1::InitManifest::kSetStateFieldNumber,
                          SetStateRequest>(request, stripe);
}

EncodedMessage EncodeManifest(const PushRequest& request,
                              const Stripe& stripe) {
  if (IsOfRows(request)) {
    return EncodeManifestOf<v1::PushManifest::kPushRowsFieldNumber,
                            PushRowsRequest>(request, stripe);
  }
  return EncodeManifestOf<v1::PushManifest::kPushFieldNumber, PushRequest>(
      request, stripe);
}

EncodedMessage EncodeManifest(const PushPullRequest& request,
                              const Stripe& stripe) {
  return EncodeManifestOf<v1::PushManifest::kPushPullFieldNumber,
                          PushPullRequest>(request, stripe);
}

EncodedMessage EncodePullStream(const PullRequest& request,
                                const PullStreamOptions& options,
                                BufferPool* pool) {
  if (IsOfRows(request)) {
    return EncodePullStreamOf<v1::PullStreamRequest::kPullRowsFieldNumber,
                              PullRowsRequest>(request, options, pool);
  }
  return EncodePullStreamOf<v1::PullStreamRequest::kPullFieldNumber,
                            PullRequest>(request, options, pool);
}

EncodedMessage EncodePullStream(const GetStateRequest& request,
                                const PullStreamOptions& options,
                                BufferPool* pool) {
  return EncodePullStreamOf<v1::PullStreamRequest::kGetStateFieldNumber,
                            GetStateRequest>(request, options, pool);
}

EncodedMessage EncodePushReply(const PushReply& reply) {
  return Encode(reply.results, {}, [&](WireWriter& out) {
    FieldsOf<PushReply>::Write(reply, out);
  });
}

EncodedMessage EncodePullReply(const PullReply& reply) {
  return Encode(reply.values, {}, [&](WireWriter& out) {
    WriteValues(reply.values, reply.snapshot_number, out);
  });
}

EncodedMessage EncodePullBatch(absl::Span<const Value> values,
                               uint64_t snapshot_number) {
  return EncodePullChunk(wire::kChunkBatch, values, snapshot_number,
                         Elements::kPresent);
}

EncodedMessage EncodePullManifest(const PullReply& reply) {
  return EncodePullChunk(wire::kChunkManifest, reply.values,
                         reply.snapshot_number, Elements::kLeftOut);
}

}  // namespace tensorkv
