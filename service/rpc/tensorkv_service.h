// The service tensorkv.v1.TensorKV on gRPC's callback API.

#ifndef TENSORKV_SERVICE_RPC_TENSORKV_SERVICE_H_
#define TENSORKV_SERVICE_RPC_TENSORKV_SERVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/task_pool.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/service_type.h"
#include "service/metrics/call_observer.h"
#include "service/rpc/handlers.h"
#include "service/rpc/method.h"
#include "service/rpc/stream_call.h"

namespace tensorkv {

// Routes the calls of every implemented method to its handler. Thread-safe.
//
// Requests and replies pass as bytes, so that the handlers own the messages
// they decode: a contribution outlives its call. (Generated services would
// also answer Unimplemented to bytes that are no message.) Methods that are
// not implemented are not registered: see UnimplementedService.
//
// Nothing that takes long, or may block, runs on gRPC's few threads: requests
// of more than 1 MiB (messages of 2 MiB, in streams), and verbs that read or
// change many keys, run on a pool, where a connection never takes all threads.
// So whatever the others do, leases are renewed and small calls go on.
class TensorKvService final : public grpc::Service {
 public:
  // All outlive the server that this service is registered with; the pool of
  // the streams is the service's own.
  TensorKvService(Handlers* handlers, const StreamCall::Environment* streams,
                  CallObserver* observer);

 private:
  using Waiting = void (Handlers::*)(grpc::ByteBuffer*, CallContext, Responder);
  using Immediate = Handlers::Answer (Handlers::*)(grpc::ByteBuffer*,
                                                   const CallContext&);
  using Handler =
      std::function<void(grpc::ByteBuffer*, CallContext, Responder)>;

  void Add(Method method, Waiting handler);
  void Add(Method method, Immediate handler);
  // The same for one that reads or changes no more than a few keys.
  void AddQuick(Method method, Immediate handler);
  void AddHandler(Method method, int64_t max_bytes_inline, Handler handler);
  void AddStream(Method method);
  // Registers a method; returns its index.
  int AddPath(Method method, grpc::internal::RpcMethod::RpcType type);

  Handlers& handlers_;
  StreamCall::Environment streams_;
  const Incarnation& incarnation_;
  CallObserver& observer_;
  // gRPC points to them.
  std::deque<std::string> paths_;
  TaskPool pool_;  // last: its tasks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_TENSORKV_SERVICE_H_
