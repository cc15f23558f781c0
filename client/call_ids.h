// The identities of a client's calls.

#ifndef TENSORKV_CLIENT_CALL_IDS_H_
#define TENSORKV_CLIENT_CALL_IDS_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "client/random_bytes.h"
#include "tensor/requests.h"

namespace tensorkv {

// 16 random bytes, which no two clients have in common, not even those of
// processes that were forked from one.
inline std::string RandomClientId() { return RandomBytes(16); }

// Names calls so that no two of any clients have the same name. Thread-safe.
class CallIds {
 public:
  CallIds() : client_id_(RandomClientId()) {}

  CallId Next() { return {client_id_, next_sequence_++}; }

 private:
  const std::string client_id_;
  std::atomic<uint64_t> next_sequence_ = 1;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CALL_IDS_H_
