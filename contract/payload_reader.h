// Reads calls with tensors, and their replies, in two walks over the bytes of
// their messages, so that elements go from a transport's chunks straight to
// where they belong:
//
//   1. ReadCall reads everything but the elements and says where they are.
//      Nothing the size of a tensor is allocated, so the caller can check the
//      request and reserve memory first.
//   2. ReadPayloads walks a second stream over the same bytes and copies the
//      elements into the tensors' memory.
//
// It reads messages in the form that writers give them: fields in ascending
// order, numbers packed and in their shortest form, nothing that is unknown.
// protobuf allows others. Whoever gets an error parses the message by the
// generated code, which takes every form, leaves out what is unknown, writes it
// again, and has ReadCall read that: what it says then is what is wrong with
// the message, whatever the first error was.
//
// What a message alone can show to be wrong is checked here: enums, dtype,
// shape, payload length, fields this build does not implement. Names, keys and
// everything that depends on state are the store's to check. Errors name the
// entry, counted from 0: `entry 3 ("fc1.w"): ...`.
//
// Safe on every input; allocates in proportion to the message's own bytes.
// Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_PAYLOAD_READER_H_
#define TENSORKV_CONTRACT_PAYLOAD_READER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contract/data_requests.h"
#include "contract/encoded_message.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace tensorkv {

// Says where the elements of one tensor are in the encoded message.
struct PayloadRange {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;

  friend bool operator==(const PayloadRange&, const PayloadRange&) = default;
};

// Tensors have dtype and shape, but no data (Tensor::WithoutData). `payloads`
// has one range per tensor, in their order; its size is the one that dtype and
// shape, or its encoding, ask for, 0 where an entry is skipped or has no
// elements. Ids of rows have their data.
template <typename Call>
struct Decoded {
  Call call;
  std::vector<PayloadRange> payloads;
};

// Reads the first `message_bytes` of `in`, below 2 GiB, as the message of a
// `Call`: a request or reply of data_requests.h that has entries. Reads no more
// than `max_entries` entries. The tensors of a reply with a ticket have no
// elements, whatever `elements` says.
// Errors: InvalidArgument (malformed, or not in the usual form) · Unimplemented
// (ENCODING_UNKNOWN).
template <typename Call>
absl::StatusOr<Decoded<Call>> ReadCall(
    google::protobuf::io::ZeroCopyInputStream* in, uint64_t message_bytes,
    uint32_t max_entries, Elements elements = Elements::kPresent);

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
// Copies the bytes of `in` from `offset` on to the destinations, one after the
// other. Returns false if `in` ends before.
bool CopyBytes(google::protobuf::io::ZeroCopyInputStream* in, uint64_t offset,
               absl::Span<const absl::Span<char>> destinations);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_PAYLOAD_READER_H_
