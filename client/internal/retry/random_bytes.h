// Randomness that no two processes share.

#ifndef TENSORKV_CLIENT_INTERNAL_RETRY_RANDOM_BYTES_H_
#define TENSORKV_CLIENT_INTERNAL_RETRY_RANDOM_BYTES_H_

#include <cstddef>
#include <string>

namespace tensorkv {

// Returns so many bytes of the kernel's generator. A generator of this process
// would say the same again in each process that is forked from it. Thread-safe.
// REQUIRES: num_bytes <= 256.
std::string RandomBytes(size_t num_bytes);

// Returns a number that is uniform in [0, 1), from the kernel's generator too.
double RandomFraction();

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RETRY_RANDOM_BYTES_H_
