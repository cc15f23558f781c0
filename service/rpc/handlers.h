// Does what each unary RPC does, without the transport that carries it.

#ifndef TENSORKV_SERVICE_RPC_HANDLERS_H_
#define TENSORKV_SERVICE_RPC_HANDLERS_H_

#include <array>
#include <cstdint>
#include <functional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/method.h"
#include "contract/requests.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/rpc/incarnation.h"
#include "service/rpc/message_limits.h"
#include "service/rpc/payload_decoder.h"
#include "service/rpc/server_admin.h"
#include "service/rpc/tickets.h"
#include "service/store/call_dispatch.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Takes the encoded reply of a call, or its status. Called exactly once.
using Responder = absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>) &&>;

// HandlerDependencies holds what the handlers work on; all of it outlives them.
struct HandlerDependencies {
  const CallDispatch* calls = nullptr;
  const Incarnation* incarnation = nullptr;
  // Holds the values that do not go into replies.
  Tickets* tickets = nullptr;
  ServerAdmin* server = nullptr;
  // Handles a call of TENSORKV_PEER_METHODS, as Handler::run does; may block
  // for TENSORKV_MOVE_METHODS. Null: these methods have no handler.
  std::function<void(Method method, grpc::ByteBuffer* bytes,
                     CallContext context, Responder respond)>
      ask_peer;
};

// The threads that handle a call. What waits for a disk or for other servers
// has threads of its own, so that it holds up only calls of the same kind;
// calls that wait in the store do so on no thread.
enum class Threads : uint8_t {
  kGrpc,     // gRPC's own: few entries, and not too many bytes
  kShared,   // all else that is soon done
  kDisk,     // those that wait for a disk
  kCluster,  // those that wait for other servers
};

// Handler says what a unary call does: decode, ask the store, encode.
struct Handler {
  // Returns the threads for a call of these bytes: kGrpc if it is small enough.
  Threads ThreadsFor(const grpc::ByteBuffer& bytes) const;

  // The most bytes of a request that gRPC's threads handle; -1: none.
  int64_t max_bytes_inline = -1;
  // The threads of all other requests.
  Threads threads = Threads::kShared;
  // Handles a call: empties its bytes, and calls the Responder once, now or
  // later on another thread. Thread-safe. Null: the method is not implemented.
  std::function<void(grpc::ByteBuffer*, CallContext, Responder)> run;
};

// The handlers of all methods that are no streams. Thread-safe.
//
// What the RPCs mean, and their errors, is written in proto/tensorkv/v1/;
// besides those, every handler answers InvalidArgument for bytes that are no
// request, and ResourceExhausted for a request or a reply over the limits.
class Handlers {
 public:
  Handlers(HandlerDependencies dependencies, const MessageLimits& limits);
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;

  // Returns the handler of a method. REQUIRES: the method is no stream.
  const Handler& of(Method method) const {
    return handlers_[static_cast<size_t>(method)];
  }

 private:
  using Answer = absl::StatusOr<grpc::ByteBuffer>;
  // Bounds what gRPC's threads handle: a tensor of 1 MiB, which is decoded in
  // about 0.1 ms, and what says which it is. Then its update alone may need
  // another thread.
  static constexpr int64_t kMaxBytesInline = (1 << 20) + (4 << 10);

  void AddDataHandlers();
  void AddNamespaceHandlers();
  void AddMembershipHandlers();
  // Adds those of TENSORKV_CHECKPOINT_METHODS and TENSORKV_SERVER_METHODS.
  void AddServerHandlers(ServerAdmin* server);
  // Sets the threads of the verbs that may take long.
  void ChooseThreads();
  // Adds the handler of a method of the store, which answers on the thread that
  // ends the call: `decode(bytes, context)` returns the request, admitted;
  // `encode(reply, limits)` encodes the reply.
  template <typename Request, typename Decoder, typename Encoder>
  void AddCall(Method method, Decoder decode, Encoder encode,
               int64_t max_bytes_inline);
  // Adds the handler of a method whose requests the decoder reads.
  template <typename Request, typename Encoder>
  void AddRead(Encoder encode);
  // Does so for a method that replies with values.
  template <typename Request>
  void AddReadOfValues();
  // Adds the handler of a method whose messages have no tensors.
  template <typename Request, typename Encoder>
  void AddPlain(Encoder encode, int64_t max_bytes_inline = -1);
  template <typename Request>
  void AddPlain(int64_t max_bytes_inline = -1);
  // Adds the handler of a method that `answer(bytes, context)` answers before
  // it returns.
  template <typename Function>
  void AddAnswer(Method method, int64_t max_bytes_inline, Function answer);

  Answer ListNamespaces(grpc::ByteBuffer* bytes, const CallContext& context);

  const CallDispatch& calls_;
  const Incarnation& incarnation_;
  Tickets& tickets_;
  const MessageLimits limits_;
  const PayloadDecoder decoder_;
  std::array<Handler, kNumMethods> handlers_;  // const once built
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_HANDLERS_H_
