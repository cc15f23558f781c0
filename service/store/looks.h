// Counts what a thread looks at while others wait for it.

#ifndef TENSORKV_SERVICE_STORE_LOOKS_H_
#define TENSORKV_SERVICE_STORE_LOOKS_H_

#include <cstdint>

namespace tensorkv {

// Counts the keys, entries and waiting calls that this thread has visited under
// the mutex of a namespace. Tests bound by it what a call costs all others,
// which no clock shows on a busy machine.
inline thread_local uint64_t num_looks = 0;

inline void CountLook() { ++num_looks; }

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_LOOKS_H_
