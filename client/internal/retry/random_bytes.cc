#include "client/internal/retry/random_bytes.h"

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tensorkv {

std::string RandomBytes(size_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  // It fails for too many bytes, and on kernels that are older than the call.
  if (getentropy(bytes.data(), bytes.size()) != 0) std::abort();
  return bytes;
}

double RandomFraction() {
  constexpr int kMantissaBits = 53;
  uint64_t bits = 0;
  std::memcpy(&bits, RandomBytes(sizeof(bits)).data(), sizeof(bits));
  return std::ldexp(static_cast<double>(bits >> (64 - kMantissaBits)),
                    -kMantissaBits);
}

}  // namespace tensorkv
