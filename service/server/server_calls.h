// The calls that are about a server, not about a namespace of it.

#ifndef TENSORKV_SERVICE_SERVER_SERVER_CALLS_H_
#define TENSORKV_SERVICE_SERVER_SERVER_CALLS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "contract/any_call.h"
#include "contract/requests.h"
#include "service/checkpoint/checkpoints.h"
#include "service/cluster/known_placement.h"
#include "service/rpc/incarnation.h"
#include "service/security/access_control.h"
#include "service/server/cluster_part.h"
#include "service/server/engine.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Answers the calls of TENSORKV_CHECKPOINT_METHODS and TENSORKV_SERVER_METHODS,
// and audits them. Checks no right: these calls have no namespace, and
// AccessControl::Identify has checked the right for the whole server.
// Thread-safe.
class ServerCalls {
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

  // Makes the call and sets its reply. Blocks as long as the method takes.
  // Errors: those of the method · Internal for a method of neither list.
  absl::Status Ask(const AnyCall& call, const CallContext& context) const;

#define TENSORKV_VERB(name, ...) \
  OutcomeOfCall<name##Request> name(const name##Request& request) const;
  TENSORKV_SERVER_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB

 private:
  const Parts parts_;
  const int64_t start_unix_seconds_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_SERVER_CALLS_H_
