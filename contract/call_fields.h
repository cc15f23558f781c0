// Declares what requests of several kinds have in common.

#ifndef TENSORKV_CONTRACT_CALL_FIELDS_H_
#define TENSORKV_CONTRACT_CALL_FIELDS_H_

#include <cstdint>
#include <string>

namespace tensorkv {

// The version of a key counts its values from 1. 0 stands for "any" or "none".
using Version = uint64_t;
// A worker's iteration, from 1. 0 stands for "not given".
using Step = uint64_t;

// Says what a call does about something of the same name that exists: fails,
// leaves it as it is, or replaces it.
enum class OnExisting { kFail, kKeep, kReplace };

// Bounds the calls of one client from the lowest on whose answer it lacks.
inline constexpr uint64_t kMaxCallsUnderWay = 128;

// Names a call in all its attempts, so that the server applies it once.
// Sequences of one client_id rise.
struct CallId {
  std::string client_id;
  uint64_t sequence = 0;
  // The lowest sequence whose answer the client still lacks; 1: it has none.
  uint64_t answered_below = 1;
};

// A worker as it signs its calls. Each Join gives another epoch; it is 0 for a
// worker that does not join.
struct Worker {
  uint32_t rank = 0;
  uint64_t epoch = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_CALL_FIELDS_H_
