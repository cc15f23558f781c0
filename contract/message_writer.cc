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

// A call of rows is one if an entry has some.
template <typename Request>
bool IsOfRows(const Request& request) {
  return std::any_of(request.entries.begin(), request.entries.end(),
                     [](const auto& entry) { return bool{entry.rows}; });
}

}  // namespace

template <typename Request>
EncodedMessage EncodeRequest(const Request& request,
                             std::optional<wire::ReplyBounds> bounds,
                             BufferPool* pool) {
  return Encode(
      request.entries, {.pool = pool, .reply_bounds = bounds},
      [&](WireWriter& out) { FieldsOf<Request>::Write(request, out); });
}

#define TENSORKV_INSTANTIATE(Request)    \
  template EncodedMessage EncodeRequest( \
      const Request&, std::optional<wire::ReplyBounds>, BufferPool*)
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

EncodedMessage EncodePushReply(const PushReply& reply) {
  return Encode(reply.results, {}, [&](WireWriter& out) {
    FieldsOf<PushReply>::Write(reply, out);
  });
}

EncodedMessage EncodePullReply(const PullReply& reply) {
  const Elements elements =
      reply.ticket ? Elements::kLeftOut : Elements::kPresent;
  return Encode(reply.values, {.elements = elements}, [&](WireWriter& out) {
    FieldsOf<PullReply>::Write(reply, out);
  });
}

EncodedMessage EncodePullManifest(const PullReply& reply) {
  return Encode(reply.values, {.elements = Elements::kLeftOut},
                [&](WireWriter& out) {
                  out.Message(wire::kChunkManifest,
                              [&] { FieldsOf<PullReply>::Write(reply, out); });
                });
}

}  // namespace tensorkv
