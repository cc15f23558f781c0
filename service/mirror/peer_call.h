// Says of a message by which servers call each other which method it calls, and
// which message answers it.

#ifndef TENSORKV_SERVICE_MIRROR_PEER_CALL_H_
#define TENSORKV_SERVICE_MIRROR_PEER_CALL_H_

#include "contract/method.h"
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

template <typename Request>
struct PeerCall;
#define TENSORKV_PEER_CALL(name, ...)                  \
  template <>                                          \
  struct PeerCall<v1::name##Request> {                 \
    static constexpr Method kMethod = Method::k##name; \
    using Response = v1::name##Response;               \
  };
TENSORKV_PEER_METHODS(TENSORKV_PEER_CALL)
#undef TENSORKV_PEER_CALL

template <typename Request>
using PeerResponse = typename PeerCall<Request>::Response;

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_PEER_CALL_H_
