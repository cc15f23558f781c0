// Reads messages with tensors in two walks over their bytes, so that elements
// go from a transport's chunks straight to where they belong:
//
//   1. Read... parses everything but the elements and says where they are.
//      Nothing the size of a tensor is allocated, so the caller can check the
//      request and reserve memory first.
//   2. ReadPayloads walks a second stream over the same bytes and copies the
//      elements into the tensors' memory.
//
// Only the form that writers give these messages is understood: fields in
// ascending order, numbers in packed and shortest form, elements in `data`.
// Everything else (unknown fields, other orders, other payload locations, and
// whatever is wrong) is nullopt: parse the message with the
// generated code then, which takes every form and explains errors. A result
// that is given is the one that the generated code and FromProto would give.
//
// Safe on every input; allocates in proportion to the message's own bytes.
// Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_PAYLOAD_READER_H_
#define TENSORKV_CONTRACT_PAYLOAD_READER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "contract/requests.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace tensorkv {

// Says where the elements of one tensor are in the encoded message.
struct PayloadRange {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;

  friend bool operator==(const PayloadRange&, const PayloadRange&) = default;
};

// Tensors have dtype and shape, but no data (Tensor::WithoutData). `payloads`
// has one range per entry, in their order; its size is the one that dtype and
// shape, or its encoding, ask for, 0 where an entry is skipped or has no
// elements.
struct DecodedInit {
  InitRequest request;
  std::vector<PayloadRange> payloads;
};
struct DecodedPush {
  PushRequest request;
  std::vector<PayloadRange> payloads;
};
struct DecodedPushPull {
  PushPullRequest request;
  std::vector<PayloadRange> payloads;
};
struct DecodedPull {
  PullReply reply;
  std::vector<PayloadRange> payloads;
};

// These read the first `message_bytes` of `in`, below 2 GiB, as one message.
// They return nullopt for a message of more than `max_entries` entries too.
std::optional<DecodedInit> ReadInit(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes,
    uint32_t max_entries);
std::optional<DecodedPush> ReadPush(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes,
    uint32_t max_entries);
std::optional<DecodedPushPull> ReadPushPull(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes,
    uint32_t max_entries);
// Reads a PullResponse or another reply with values, all of which have the same
// form.
std::optional<DecodedPull> ReadPullReply(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes,
    uint32_t max_entries);

// Reads a PullChunk with a batch, and adds its values to those of `decoded`, up
// to `max_entries` in all. Returns whether it was read; if not, some of its
// values may have been added.
bool ReadPullBatch(google::protobuf::io::ZeroCopyInputStream* in,
                   uint64_t message_bytes, uint32_t max_entries,
                   DecodedPull* decoded);

// Reads a PullRequest, whose entries have no payload.
std::optional<PullRequest> ReadPull(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes,
    uint32_t max_entries);
// Reads a PullStreamRequest with a Pull. Returns nullopt for one that names a
// stripe, as those of a call of several stripes do.
std::optional<PullStreamRequest> ReadPullStream(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes,
    uint32_t max_entries);
// Reads a PushResponse of at most `max_results` results.
std::optional<PushReply> ReadPushReply(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes,
    uint32_t max_results);

// Copies each payload into the memory of its tensor; `in` starts at the first
// byte of the message. A tensor whose payload is empty is left alone and may
// be null.
// Returns whether all were copied: false if payloads and tensors differ in
// number or in size, if payloads do not follow one another, or if the bytes
// end early.
// REQUIRES: tensors with a payload have host memory that nobody else uses.
bool ReadPayloads(google::protobuf::io::ZeroCopyInputStream* in,
                  absl::Span<const PayloadRange> payloads,
                  absl::Span<Tensor* const> tensors);

// Copies one range of the bytes of `in` to `destination`. Returns false if `in`
// ends before the range does.
bool CopyRange(google::protobuf::io::ZeroCopyInputStream* in,
               PayloadRange range, char* destination);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_PAYLOAD_READER_H_
