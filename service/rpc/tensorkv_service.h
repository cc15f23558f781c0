// The service tensorkv.v1.TensorKV on gRPC's callback API.

#ifndef TENSORKV_SERVICE_RPC_TENSORKV_SERVICE_H_
#define TENSORKV_SERVICE_RPC_TENSORKV_SERVICE_H_

#include "base/task_pool.h"
#include "contract/method.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/service_type.h"
#include "service/metrics/call_observer.h"
#include "service/rpc/handlers.h"
#include "service/rpc/stream_call.h"

namespace tensorkv {

// Routes the calls of every implemented method to its handler. Thread-safe.
//
// Requests and replies pass as bytes, so that the handlers own the messages
// they decode: a contribution outlives its call. (Generated services would
// also answer Unimplemented to bytes that are no message.) What has no handler
// here goes to UnimplementedService.
//
// Nothing that takes long, or may block, runs on gRPC's few threads: requests
// of more than 1 MiB (messages of 2 MiB, in streams) or 1024 entries, and verbs
// that read or change many keys, run on a pool, where a connection never takes
// all threads.
// So whatever the others do, leases are renewed and small calls go on.
class TensorKvService final : public grpc::Service {
 public:
  // All outlive the server that this service is registered with; the pool of
  // the streams is the service's own.
  TensorKvService(const Handlers* handlers,
                  const StreamCall::Environment* streams,
                  CallObserver* observer);

 private:
  void AddUnary(Method method);
  void AddStream(Method method);

  const Handlers& handlers_;
  StreamCall::Environment streams_;
  const AccessControl* const access_;
  const Incarnation& incarnation_;
  CallObserver& observer_;
  TaskPool pool_;  // last: its tasks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_TENSORKV_SERVICE_H_
