// Packed contributions that a fuzzer makes up: what the checks let through is
// decoded within the payload's bytes, and by loops as element by element. The
// first bytes are a Header, the rest is the payload.
//
//   tools/fuzz 10000000 packed_payload

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "contract/encoding.h"
#include "kernels/ops/unpack.h"
#include "tensor/float_formats.h"
#include "tensor/packing.h"

#define INDEPENDENT_ITERATIONS
#define FLATTEN

namespace tensorkv {
namespace {

// What kernels/cpu/element_kernels.inc has for these loops.
template <typename T>
struct Native {
  using Bits = T;
  static T Widen(T value) { return value; }
};

struct F8E4M3 {
  using Bits = uint8_t;
  static float Widen(uint8_t bits) { return F8E4M3ToF32(bits); }
};

struct F8E5M2 {
  using Bits = uint8_t;
  static float Widen(uint8_t bits) { return F8E5M2ToF32(bits); }
};

#include "kernels/cpu/unpack_kernels.inc"

struct Header {
  uint8_t kind;
  uint8_t dtype;
  uint8_t element_dtype;
  uint8_t bits;
  uint16_t num_elements;
  uint16_t first;
  uint16_t block_size;
  uint16_t count;
  float scale;
  uint64_t seed;
};

Packing PackingOf(const Header& header) {
  return {.kind = static_cast<PackingKind>(1 + header.kind % 6),
          .element_dtype = header.element_dtype,
          .bits = header.bits,
          .is_natural = header.kind % 12 >= 6,
          .scale = header.scale,
          .block_size = header.block_size,
          .count = header.count,
          .seed = header.seed};
}

// So that an execution is short.
constexpr int64_t kMaxElements = 300;

// Of exactly that size, aligned as the store has it; zeros where there is no
// more input.
struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
std::unique_ptr<char, Free> PayloadOf(const uint8_t* data, size_t size,
                                      size_t payload_bytes) {
  std::unique_ptr<char, Free> payload(
      static_cast<char*>(std::calloc(std::max<size_t>(payload_bytes, 1), 1)));
  const size_t copied = std::min(size, payload_bytes);
  if (copied > 0) std::memcpy(payload.get(), data, copied);
  return payload;
}

template <typename T>
void CheckElements(const Packing& packing, const char* payload, size_t first) {
  const size_t count = packing.num_elements - first;
  const std::unique_ptr<T[]> loop(new T[count]);
  Unpack<T>(packing, payload, first, count, loop.get());
  for (size_t i = 0; i < count; ++i) {
    const T one = ops::UnpackElement<T>(packing, payload, first + i);
    // A NaN is a NaN, of whichever bits.
    const bool is_nan = one != one && loop[i] != loop[i];
    if (is_nan || std::memcmp(&one, &loop[i], sizeof(T)) == 0) continue;
    std::fprintf(stderr, "element %zu is not what the loop decodes\n", i);
    std::abort();
  }
}

void Check(const Header& header, const uint8_t* data, size_t size) {
  const absl::StatusOr<RefPtr<const Encoding>> encoding =
      Encoding::Create(PackingOf(header), static_cast<DType>(header.dtype % 16),
                       {header.num_elements % kMaxElements});
  if (!encoding.ok()) return;
  const auto payload = PayloadOf(data, size, (*encoding)->payload_bytes());
  if (!(*encoding)->CheckPayload(payload.get()).ok()) return;
  const Packing& packing = (*encoding)->packing();
  const size_t first = header.first % (packing.num_elements + 1);
  CheckElements<float>(packing, payload.get(), first);
  CheckElements<double>(packing, payload.get(), first);
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
