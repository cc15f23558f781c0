// The calls that are about a server, not about a namespace of it.

#ifndef TENSORKV_SERVICE_SERVER_SERVER_CALLS_H_
#define TENSORKV_SERVICE_SERVER_SERVER_CALLS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "contract/requests.h"
#include "service/checkpoint/checkpoints.h"
#include "service/cluster/known_placement.h"
#include "service/rpc/incarnation.h"
#include "service/rpc/server_admin.h"
#include "service/security/access_control.h"
#include "service/server/cluster_part.h"
#include "service/server/engine.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Answers the calls of TENSORKV_CHECKPOINT_METHODS and TENSORKV_SERVER_METHODS,
// and audits them. Checks no right: these calls have no namespace, and
// AccessControl::Identify has checked the right for the whole server.
// Thread-safe.
class ServerCalls final : public ServerAdmin {
 public:
  // Parts holds what outlives the calls.
  struct Parts {
    const ServerOptions* options = nullptr;
    const Incarnation* incarnation = nullptr;
    const Engine* engine = nullptr;
    const KnownPlacement* placement = nullptr;
    const AccessControl* access = nullptr;
    // Returns null if there is no directory for checkpoints.
    std::function<Checkpoints*()> checkpoints;
    // Returns null if the server is in no cluster, or not yet.
    std::function<ClusterPart*()> cluster;
  };

  explicit ServerCalls(Parts parts);

  // Errors: those of the method · FailedPrecondition: it is about checkpoints,
  // and there is no directory for them.
#define TENSORKV_VERB(name, ...)                                 \
  absl::StatusOr<name##Reply> Make(const name##Request& request, \
                                   const CallContext& context) override;
  TENSORKV_CHECKPOINT_METHODS(TENSORKV_VERB)
  TENSORKV_SERVER_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB

#define TENSORKV_VERB(name, ...) \
  OutcomeOfCall<name##Request> name(const name##Request& request) const;
  TENSORKV_SERVER_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB

 private:
  // Audits a call that has ended, and returns its reply.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Audited(
      const Request& request, const CallContext& context,
      absl::StatusOr<ReplyTo<Request>> reply) const;

  const Parts parts_;
  const int64_t start_unix_seconds_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_SERVER_CALLS_H_
