// Who makes a call, by what its connection proves.

#ifndef TENSORKV_SERVICE_RPC_CALLER_H_
#define TENSORKV_SERVICE_RPC_CALLER_H_

#include "grpcpp/server_context.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Connections prove nothing yet: they are neither encrypted nor authenticated,
// and gRPC does not tell the user at the other end of a Unix socket. So
// everybody is the anonymous caller.
inline Caller CallerOf(const grpc::CallbackServerContext&) { return Caller(); }

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_CALLER_H_
