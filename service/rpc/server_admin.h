// The calls that are about a server, not about a namespace of it.

#ifndef TENSORKV_SERVICE_RPC_SERVER_ADMIN_H_
#define TENSORKV_SERVICE_RPC_SERVER_ADMIN_H_

#include "absl/status/statusor.h"
#include "contract/method.h"
#include "contract/requests.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Makes the calls of TENSORKV_CHECKPOINT_METHODS and TENSORKV_SERVER_METHODS,
// each by the type of its request. Thread-safe. May block for as long as the
// method takes.
class ServerAdmin {
 public:
  virtual ~ServerAdmin() = default;

#define TENSORKV_VERB(name, ...)                                         \
  virtual absl::StatusOr<name##Reply> Make(const name##Request& request, \
                                           const CallContext& context) = 0;
  TENSORKV_CHECKPOINT_METHODS(TENSORKV_VERB)
  TENSORKV_SERVER_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_SERVER_ADMIN_H_
