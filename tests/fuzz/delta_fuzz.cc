// Deltas that a fuzzer makes up: what is malformed is an error, and nothing is
// read or written outside of the delta and both tensors; and what the encoder
// makes of two tensors is decoded to the second one.
//
//   tools/fuzz 10000000 delta

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "tensor/delta/delta_decoder.h"
#include "tensor/delta/delta_encoder.h"

namespace tensorkv {
namespace {

struct Header {
  uint8_t dtype;
  uint8_t accepted;
  uint16_t num_elements;
};

// Bytes of exactly that size; zeros where there is no more input.
std::unique_ptr<char[]> Take(const uint8_t*& data, size_t& size, size_t bytes) {
  std::unique_ptr<char[]> taken(new char[bytes]());
  const size_t copied = std::min(size, bytes);
  if (copied > 0) std::memcpy(taken.get(), data, copied);
  data += copied;
  size -= copied;
  return taken;
}

DeltaEncodings Accepted(uint8_t bits) {
  DeltaEncodings accepted = {};
  for (int i = 0; i < kNumDeltaEncodings; ++i) {
    if (bits >> i & 1) accepted.Add(static_cast<DeltaEncoding>(i));
  }
  return accepted;
}

void CheckRoundTrip(TensorView from, TensorView to, DeltaEncodings accepted) {
  const std::optional<std::string> delta = EncodeDelta(from, to, accepted);
  if (!delta) return;
  const size_t bytes = to.size_bytes();
  const std::unique_ptr<char[]> decoded(new char[bytes]);
  const absl::Status status = DecodeDelta(
      *delta, DigestOf(to), from, {to.dtype, to.num_elements, decoded.get()});
  if (status.ok() && std::memcmp(decoded.get(), to.data, bytes) == 0) return;
  std::fprintf(stderr, "the delta does not decode to the tensor\n");
  std::abort();
}

void Check(const Header& header, const uint8_t* data, size_t size) {
  const DType dtype = kAllDTypes[header.dtype % std::size(kAllDTypes)];
  const int64_t num_elements = header.num_elements % 2048;
  const size_t bytes = num_elements * SizeOf(dtype);
  const auto from = Take(data, size, bytes);
  const TensorView base = {dtype, num_elements, from.get()};
  // What is left is a delta, and, by bits that change, a second tensor.
  const std::unique_ptr<char[]> delta(new char[size]);
  if (size > 0) std::memcpy(delta.get(), data, size);
  const std::unique_ptr<char[]> to(new char[bytes]);
  DecodeDelta({delta.get(), size}, 0, base, {dtype, num_elements, to.get()})
      .IgnoreError();  // only that it ends, within its memory, counts
  const auto changes = Take(data, size, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    to[i] = static_cast<char>(from[i] ^ changes[i]);
  }
  CheckRoundTrip(base, {dtype, num_elements, to.get()},
                 Accepted(header.accepted));
}

}  // namespace
}  // namespace tensorkv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorkv::Header header;
  if (size < sizeof(header)) return 0;
  std::memcpy(&header, data, sizeof(header));
  tensorkv::Check(header, data + sizeof(header), size - sizeof(header));
  return 0;
}
