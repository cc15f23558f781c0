// What requests of several kinds have in common.

#ifndef TENSORKV_CONTRACT_CALL_FIELDS_H_
#define TENSORKV_CONTRACT_CALL_FIELDS_H_

#include <cstdint>
#include <string>

namespace tensorkv {

// Per key, from 1. 0 stands for "any" or "none".
using Version = uint64_t;
// A worker's iteration, from 1. 0 stands for "not given".
using Step = uint64_t;

enum class OnExisting { kFail, kKeep, kReplace };

struct CallId {
  std::string client_id;
  uint64_t sequence = 0;
};

struct Worker {
  uint32_t rank = 0;
  uint64_t epoch = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_CALL_FIELDS_H_
