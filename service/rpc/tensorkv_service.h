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
#include "service/rpc/call_observer.h"
#include "service/rpc/handlers.h"
#include "service/rpc/method.h"
#include "service/rpc/stream_call.h"

namespace tensorkv {

// Routes the calls of every implemented method to its handler. Thread-safe.
//
// What takes long or may block runs on a pool, so that gRPC's threads, which
// leases and health need, are free: large messages, rules and digests, and what
// goes through many keys or workers, in turns, so that the quick ones do not
// wait for the slow.
//
// Requests and replies pass as bytes, so that the handlers own the messages
// they decode: a contribution outlives its call. (Generated services would
// also answer Unimplemented to bytes that are no message.) Methods that are
// not implemented are not registered: see UnimplementedService.
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
  void AddHandler(Method method, Handler handler);
  void AddStream(Method method);
  // Registers a method; returns its index.
  int AddPath(Method method, grpc::internal::RpcMethod::RpcType type);

  Handlers& handlers_;
  StreamCall::Environment streams_;
  const Incarnation& incarnation_;
  CallObserver& observer_;
  // gRPC points to them.
  std::deque<std::string> paths_;
  // Last: it runs what is left of calls while everything else is there.
  TaskPool pool_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_TENSORKV_SERVICE_H_
