#include "tests/service/rpc/live_service.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "grpcpp/generic/generic_stub.h"

namespace tensorkv::testing {

void RecordingObserver::Started(Method method) {
  MutexLock lock(&mutex_);
  started_.push_back(method);
  changed_.SignalAll();
}

void RecordingObserver::Handled(Method method, const CallOutcome& outcome) {
  MutexLock lock(&mutex_);
  handled_.push_back({method, outcome});
  changed_.SignalAll();
}

std::vector<Method> RecordingObserver::started() {
  MutexLock lock(&mutex_);
  return started_;
}

void RecordingObserver::WaitForStarted(size_t count) {
  MutexLock lock(&mutex_);
  while (started_.size() < count) changed_.Wait(&mutex_);
}

size_t RecordingObserver::num_handled() {
  MutexLock lock(&mutex_);
  return handled_.size();
}

std::vector<RecordingObserver::Call> RecordingObserver::WaitForHandled(
    size_t count) {
  MutexLock lock(&mutex_);
  while (handled_.size() < count) changed_.Wait(&mutex_);
  return handled_;
}

LiveService::LiveService(Interceptors interceptors, uint32_t max_uploads)
    : striped_calls_(kTestStreamTimeout, &alarms),
      tickets_(kTestStreamTimeout, &alarms),
      open_streams_(kMaxTestStreams),
      streams_({.session = {.calls = &calls_,
                            .striped_calls = &striped_calls_,
                            .tickets = &tickets_,
                            .limits = kTestLimits},
                .open_streams = &open_streams_,
                .incarnation = &incarnation_,
                .stream_timeout = kTestStreamTimeout,
                .alarms = &alarms,
                .observer = &observer}),
      handlers_({.calls = &calls_,
                 .incarnation = &incarnation_,
                 .tickets = &tickets_,
                 .server = &server_answers_,
                 .ask_peer =
                     [this](Method, grpc::ByteBuffer* bytes, const CallContext&,
                            Responder respond) {
                       if (when_server_is_asked) when_server_is_asked();
                       bytes->Clear();
                       std::move(respond)(absl::FailedPreconditionError(
                           "the server is in no cluster"));
                     }},
                kTestLimits),
      services_(&handlers_, &streams_, max_uploads, &observer) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  services_.Register(&builder);
  builder.RegisterCallbackGenericService(&unimplemented_);
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
  channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  stub_ = std::make_unique<Stubs>(channel_);
}

std::unique_ptr<Stubs> LiveService::Connect() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return std::make_unique<Stubs>(grpc::CreateCustomChannel(
      address_, grpc::InsecureChannelCredentials(), arguments));
}

LiveService::~LiveService() { server_->Shutdown(); }

grpc::Status LiveService::CallWithBytes(const std::string& path,
                                        const std::string& bytes) {
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::ClientContext context;
  grpc::Status result;
  Notification done;
  grpc::GenericStub(channel_).UnaryCall(&context, path, grpc::StubOptions(),
                                        &request, &reply,
                                        [&](grpc::Status status) {
                                          result = std::move(status);
                                          done.Notify();
                                        });
  done.WaitForNotification();
  return result;
}

grpc::Status LiveService::EndWithoutMessage(const std::string& path,
                                            bool cancels) {
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto call =
      grpc::GenericStub(channel_).PrepareCall(&context, path, &queue);
  grpc::Status result;
  const auto wait = [&queue] {
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
  };
  call->StartCall(nullptr);
  wait();
  if (cancels) {
    context.TryCancel();
  } else {
    call->WritesDone(nullptr);
    wait();
  }
  call->Finish(&result, nullptr);
  wait();
  return result;
}

}  // namespace tensorkv::testing
