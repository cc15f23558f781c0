// Answers calls of methods that nobody else answers.

#ifndef TENSORKV_SERVICE_RPC_UNIMPLEMENTED_SERVICE_H_
#define TENSORKV_SERVICE_RPC_UNIMPLEMENTED_SERVICE_H_

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv {

// Ends every call with Unimplemented, naming the method: calls of a later
// contract, and anything else that a peer may call. gRPC's own answer has no
// message. Thread-safe.
class UnimplementedService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_UNIMPLEMENTED_SERVICE_H_
