// The services of the contract on gRPC's callback API.

#ifndef TENSORKV_SERVICE_RPC_TENSORKV_SERVICES_H_
#define TENSORKV_SERVICE_RPC_TENSORKV_SERVICES_H_

#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>

#include "base/task_pool.h"
#include "contract/method.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/service_type.h"
#include "service/metrics/call_observer.h"
#include "service/rpc/handlers.h"
#include "service/rpc/stream_call.h"
#include "service/rpc/unary_call.h"
#include "service/rpc/upload_queue.h"

namespace tensorkv {

// Routes the calls of every method that has a handler to it. Thread-safe.
//
// Requests and replies pass as bytes, so that the handlers own the messages
// they decode: a contribution outlives its call. (Generated services would
// also answer Unimplemented to bytes that are no message.) What has no handler
// here goes to UnimplementedService.
//
// Nothing that takes long, or may block, runs on gRPC's few threads: requests
// of more than a tensor of 1 MiB (messages of 2 MiB in streams, and of other
// servers) or 1024 entries, and verbs that read or change many keys, run on a
// pool, where callers take turns and none has all threads (TaskOwnerOf). Verbs
// that wait for a disk or for other servers have pools of their own (Threads).
// So whatever the others do, leases are renewed and small calls go on, and so
// do large ones whatever is waited for.
class TensorKvServices {
 public:
  // All outlive the server that the services are registered with; the pool of
  // the streams is the services' own, and so is their UploadQueue, of so many
  // places; 0: none waits.
  TensorKvServices(const Handlers* handlers,
                   const StreamCall::Environment* streams, uint32_t max_uploads,
                   CallObserver* observer);

  // Registers each of kAllServices with the server that `builder` builds, which
  // this object outlives.
  void Register(grpc::ServerBuilder* builder);

  size_t num_uploads_waiting() const {
    return uploads_ ? uploads_->num_waiting() : 0;
  }

 private:
  // The methods of one service. gRPC takes the name of the service, which
  // reflection lists, from their paths.
  class RawService final : public grpc::Service {
   public:
    void Add(Method method, grpc::internal::RpcMethod::RpcType type,
             grpc::internal::MethodHandler* handler);

   private:
    int num_methods_ = 0;
  };

  // A pool for each of Threads, but for kGrpc.
  struct Pools {
    static constexpr size_t kThreadsOfWaits = 4;

    TaskPool& of(Threads threads) {
      switch (threads) {
        case Threads::kDisk:
          return of_disk;
        case Threads::kCluster:
          return of_cluster;
        default:
          return shared;
      }
    }

    TaskPool of_disk{kThreadsOfWaits};
    TaskPool of_cluster{kThreadsOfWaits};
    TaskPool shared;
  };

  // Add a method to its service.
  void AddUnary(Method method);
  void AddStream(Method method);
  // Has `handler` answer the call, on the threads that it says.
  void Handle(const Handler& handler, grpc::ByteBuffer* bytes, UnaryCall* call,
              const grpc::CallbackServerContext& context);

  const Handlers& handlers_;
  StreamCall::Environment streams_;
  const AccessControl* const access_;
  const Incarnation& incarnation_;
  CallObserver& observer_;
  std::array<RawService, std::size(kAllServices)> services_;
  std::optional<UploadQueue> uploads_;
  Pools pools_;  // last: their tasks use the rest
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_TENSORKV_SERVICES_H_
