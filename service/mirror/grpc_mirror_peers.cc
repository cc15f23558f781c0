#include "service/mirror/grpc_mirror_peers.h"

#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "contract/grpc_status.h"
#include "tensorkv/v1/peer.grpc.pb.h"

namespace tensorkv {

// The calls that are under way, of all peers.
class GrpcMirrorPeers::Calls {
 public:
  Calls(Connect connect, FindAddress find_address)
      : connect(std::move(connect)), find_address(std::move(find_address)) {}

  bool Begin(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    if (is_stopped_) return false;
    contexts_.insert(context);
    return true;
  }
  void End(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    contexts_.erase(context);
    if (contexts_.empty()) changed_.SignalAll();
  }
  void Stop() {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
    while (!contexts_.empty()) changed_.Wait(&mutex_);
  }

  const Connect connect;
  const FindAddress find_address;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
};

namespace {

class GrpcMirrorPeer final : public UniformMirrorPeer<GrpcMirrorPeer> {
 public:
  GrpcMirrorPeer(std::string server,
                 std::shared_ptr<GrpcMirrorPeers::Calls> calls)
      : server_(std::move(server)), calls_(std::move(calls)) {}

  // Makes a call, as MirrorPeer says.
  template <typename Request>
  void Send(Request request, absl::Duration timeout,
            MirrorCallback<Request> done);

 private:
  using Stub = v1::Peer::Stub;

  template <typename Request>
  struct UnderWay {
    std::shared_ptr<GrpcMirrorPeers::Calls> calls;
    std::shared_ptr<Stub> stub;
    std::string name;  // of the server, with its address
    grpc::ClientContext context;
    Request request;
    PeerResponse<Request> response;
    MirrorCallback<Request> done;
  };

  // Each makes the call of that method.
#define TENSORKV_START(name, ...)                                          \
  static void Start(UnderWay<v1::name##Request>& call,                     \
                    std::function<void(grpc::Status)> done) {              \
    call.stub->async()->name(&call.context, &call.request, &call.response, \
                             std::move(done));                             \
  }
  TENSORKV_MIRROR_METHODS(TENSORKV_START)
#undef TENSORKV_START

  // Returns that of the server at that address.
  std::shared_ptr<Stub> StubAt(const std::string& address) {
    // Under the lock: else an older channel could take the place of a newer.
    MutexLock lock(&mutex_);
    std::shared_ptr<grpc::Channel> channel = calls_->connect(address);
    if (channel != channel_) {
      stub_ = v1::Peer::NewStub(channel);
      channel_ = std::move(channel);
    }
    return stub_;
  }

  const std::string server_;
  const std::shared_ptr<GrpcMirrorPeers::Calls> calls_;
  Mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);
};

template <typename Request>
void GrpcMirrorPeer::Send(Request request, absl::Duration timeout,
                          MirrorCallback<Request> done) {
  const absl::StatusOr<std::string> address = calls_->find_address(server_);
  if (!address.ok()) return std::move(done)(address.status());
  auto call = std::make_shared<UnderWay<Request>>();
  call->calls = calls_;
  call->stub = StubAt(*address);
  call->name = absl::StrCat("server ", server_, " (", *address, ")");
  call->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  call->request = std::move(request);
  call->done = std::move(done);
  if (!calls_->Begin(&call->context)) {
    return std::move(call->done)(absl::UnavailableError("the server ends"));
  }
  Start(*call, [call](const grpc::Status& grpc_status) {
    const absl::Status status = FromGrpcStatus(grpc_status);
    if (status.ok()) {
      std::move(call->done)(std::move(call->response));
    } else {
      std::move(call->done)(absl::Status(
          status.code(), absl::StrCat(call->name, ": ", status.message())));
    }
    call->calls->End(&call->context);
  });
}

}  // namespace

GrpcMirrorPeers::GrpcMirrorPeers(Connect connect, FindAddress find_address)
    : calls_(std::make_shared<Calls>(std::move(connect),
                                     std::move(find_address))) {}

std::shared_ptr<MirrorPeer> GrpcMirrorPeers::PeerOf(
    const std::string& server) const {
  return std::make_shared<GrpcMirrorPeer>(server, calls_);
}

void GrpcMirrorPeers::Stop() { calls_->Stop(); }

}  // namespace tensorkv
