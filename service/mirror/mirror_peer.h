// How a server calls those that hold the same keys.

#ifndef TENSORKV_SERVICE_MIRROR_MIRROR_PEER_H_
#define TENSORKV_SERVICE_MIRROR_MIRROR_PEER_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/method.h"
#include "service/mirror/peer_call.h"
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

// Takes the response to a request, or the error of the call.
template <typename Request>
using MirrorCallback =
    absl::AnyInvocable<void(absl::StatusOr<PeerResponse<Request>>) &&>;

// Makes the calls of TENSORKV_MIRROR_METHODS to one server of the group, which
// may be this one. Thread-safe.
class MirrorPeer {
 public:
  virtual ~MirrorPeer() = default;

  // Each sends the request and returns. Calls `done` once, on any thread, maybe
  // before this returns, when the server has answered, or soon after the
  // timeout. Errors: those of the call · Unavailable · DeadlineExceeded;
  // messages name the server.
#define TENSORKV_CALL(name, ...)                                       \
  virtual void Call(v1::name##Request request, absl::Duration timeout, \
                    MirrorCallback<v1::name##Request> done) = 0;
  TENSORKV_MIRROR_METHODS(TENSORKV_CALL)
#undef TENSORKV_CALL
};

// A MirrorPeer that makes all calls alike: by `Peer::Send(request, timeout,
// done)`, a template of the class `Peer` that derives from this.
template <typename Peer>
class UniformMirrorPeer : public MirrorPeer {
 public:
#define TENSORKV_CALL(name, ...)                                \
  void Call(v1::name##Request request, absl::Duration timeout,  \
            MirrorCallback<v1::name##Request> done) final {     \
    static_cast<Peer*>(this)->Send(std::move(request), timeout, \
                                   std::move(done));            \
  }
  TENSORKV_MIRROR_METHODS(TENSORKV_CALL)
#undef TENSORKV_CALL
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_MIRROR_PEER_H_
