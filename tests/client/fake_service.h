// A server on a port of its own whose answers the test writes down.

#ifndef TENSORKV_TESTS_CLIENT_FAKE_SERVICE_H_
#define TENSORKV_TESTS_CLIENT_FAKE_SERVICE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "tensorkv/v1/service.grpc.pb.h"

namespace tensorkv::testing {

// Answers every unary RPC of clients with `status` and, where that is OK, the
// response written down for it. Records names, deadlines and some requests.
// Change and read the members while no call is under way.
class FakeService : public v1::Data::Service,
                    public v1::Namespaces::Service,
                    public v1::Membership::Service,
                    public v1::Admin::Service,
                    public v1::Snapshots::Service {
 public:
  FakeService() { join_response.mutable_worker()->set_rank(0); }

  grpc::Status status;
  v1::InitResponse init_response;
  v1::PushResponse push_response;
  v1::PullResponse pull_response;
  v1::StatResponse stat_response;
  v1::JoinResponse join_response;
  // Runs inside each call.
  std::function<void()> during_call = [] {};

  v1::InitRequest init_request;
  v1::PushRequest push_request;
  v1::PushPullRequest push_pull_request;

  // Of all calls so far.
  std::vector<std::string> rpcs() {
    MutexLock lock(&mutex_);
    return rpcs_;
  }
  std::vector<std::chrono::system_clock::time_point> deadlines() {
    MutexLock lock(&mutex_);
    return deadlines_;
  }

  // Starts to listen on 127.0.0.1. Returns the target.
  std::string Start() {
    int port = 0;
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0",
                                    grpc::InsecureServerCredentials(), &port)
                  .SetMaxReceiveMessageSize(-1)
                  .RegisterService(static_cast<v1::Data::Service*>(this))
                  .RegisterService(static_cast<v1::Namespaces::Service*>(this))
                  .RegisterService(static_cast<v1::Membership::Service*>(this))
                  .RegisterService(static_cast<v1::Admin::Service*>(this))
                  .RegisterService(static_cast<v1::Snapshots::Service*>(this))
                  .BuildAndStart();
    return absl::StrCat("127.0.0.1:", port);
  }
  // Cancels the calls that are under way, and waits for their end.
  void Stop() {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }

#define TENSORKV_FAKE_RPC(name)                              \
  grpc::Status name(grpc::ServerContext* context,            \
                    const v1::name##Request* request,        \
                    v1::name##Response* response) override { \
    Record(#name, *context);                                 \
    return status;                                           \
  }
  TENSORKV_FAKE_RPC(PushRows)
  TENSORKV_FAKE_RPC(PullRows)
  TENSORKV_FAKE_RPC(SetState)
  TENSORKV_FAKE_RPC(GetState)
  TENSORKV_FAKE_RPC(Delete)
  TENSORKV_FAKE_RPC(List)
  TENSORKV_FAKE_RPC(Watch)
  TENSORKV_FAKE_RPC(CreateNamespace)
  TENSORKV_FAKE_RPC(DescribeNamespace)
  TENSORKV_FAKE_RPC(DescribeSteps)
  TENSORKV_FAKE_RPC(ListNamespaces)
  TENSORKV_FAKE_RPC(DeleteNamespace)
  TENSORKV_FAKE_RPC(UpdateNamespace)
  TENSORKV_FAKE_RPC(SetRule)
  TENSORKV_FAKE_RPC(UnsetRule)
  TENSORKV_FAKE_RPC(SetMultipliers)
  TENSORKV_FAKE_RPC(UnsetMultipliers)
  TENSORKV_FAKE_RPC(SetHyperparameters)
  TENSORKV_FAKE_RPC(KeepAlive)
  TENSORKV_FAKE_RPC(Leave)
  TENSORKV_FAKE_RPC(Barrier)
  TENSORKV_FAKE_RPC(DescribeServer)
  TENSORKV_FAKE_RPC(DescribeCluster)
  TENSORKV_FAKE_RPC(ResizeCluster)
  TENSORKV_FAKE_RPC(SaveCheckpoint)
  TENSORKV_FAKE_RPC(RestoreCheckpoint)
  TENSORKV_FAKE_RPC(ListCheckpoints)
  TENSORKV_FAKE_RPC(DeleteCheckpoint)
  TENSORKV_FAKE_RPC(VerifyCheckpoint)
  TENSORKV_FAKE_RPC(CreateSnapshot)
  TENSORKV_FAKE_RPC(ListSnapshots)
  TENSORKV_FAKE_RPC(DescribeSnapshot)
  TENSORKV_FAKE_RPC(DeleteSnapshot)
  TENSORKV_FAKE_RPC(LeaseSnapshot)
#undef TENSORKV_FAKE_RPC

  grpc::Status Init(grpc::ServerContext* context,
                    const v1::InitRequest* request,
                    v1::InitResponse* response) override {
    Record("Init", *context);
    init_request = *request;
    *response = init_response;
    return status;
  }
  grpc::Status Push(grpc::ServerContext* context,
                    const v1::PushRequest* request,
                    v1::PushResponse* response) override {
    Record("Push", *context);
    push_request = *request;
    *response = push_response;
    return status;
  }
  grpc::Status Pull(grpc::ServerContext* context,
                    const v1::PullRequest* request,
                    v1::PullResponse* response) override {
    Record("Pull", *context);
    *response = pull_response;
    return status;
  }
  grpc::Status PushPull(grpc::ServerContext* context,
                        const v1::PushPullRequest* request,
                        v1::PushPullResponse* response) override {
    Record("PushPull", *context);
    push_pull_request = *request;
    *response->mutable_values() = pull_response.values();
    return status;
  }
  grpc::Status Join(grpc::ServerContext* context,
                    const v1::JoinRequest* request,
                    v1::JoinResponse* response) override {
    Record("Join", *context);
    *response = join_response;
    return status;
  }
  grpc::Status Stat(grpc::ServerContext* context,
                    const v1::StatRequest* request,
                    v1::StatResponse* response) override {
    Record("Stat", *context);
    *response = stat_response;
    return status;
  }

 protected:
  // Thread-safe, as streams need it.
  void Record(const char* rpc, const grpc::ServerContext& context) {
    {
      MutexLock lock(&mutex_);
      rpcs_.push_back(rpc);
      deadlines_.push_back(context.deadline());
    }
    during_call();
  }

 private:
  Mutex mutex_;
  std::vector<std::string> rpcs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::chrono::system_clock::time_point> deadlines_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_FAKE_SERVICE_H_
