// TensorKvServices over a mock store, behind a real gRPC server.

#ifndef TENSORKV_TESTS_SERVICE_RPC_LIVE_SERVICE_H_
#define TENSORKV_TESTS_SERVICE_RPC_LIVE_SERVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/server_interceptor.h"
#include "service/metrics/call_observer.h"
#include "service/rpc/handlers.h"
#include "service/rpc/open_streams.h"
#include "service/rpc/stream_call.h"
#include "service/rpc/striped_calls.h"
#include "service/rpc/tensorkv_services.h"
#include "service/rpc/unimplemented_service.h"
#include "tests/service/fake_staging.h"
#include "tests/service/mock_store.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/stubs.h"

namespace tensorkv::testing {

// Keeps what it is told. Thread-safe.
class RecordingObserver final : public CallObserver {
 public:
  struct Call {
    Method method;
    CallOutcome outcome;
  };

  void Started(Method method) override;
  void Handled(Method method, const CallOutcome& outcome) override;

  std::vector<Method> started();
  void WaitForStarted(size_t count);
  size_t num_handled();
  // The calls that have ended, once there are `count`.
  std::vector<Call> WaitForHandled(size_t count);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Method> started_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> handled_ ABSL_GUARDED_BY(mutex_);
};

// Limits small enough to reach in a test.
inline constexpr MessageLimits kTestLimits = {.max_message_bytes = 64 * 1024,
                                              .max_entries = 8};

inline constexpr uint64_t kTestIncarnation = 0xa7;
inline constexpr uint32_t kMaxTestStreams = 3;
inline constexpr absl::Duration kTestStreamTimeout = absl::Seconds(10);

// A server that says what it is, and nothing else.
class FewServerAnswers final : public ServerAdmin {
 public:
  // Calls `*when_asked`, if it is not null, before it refuses.
  explicit FewServerAnswers(const std::function<void()>* when_asked)
      : when_asked_(*when_asked) {}

#define TENSORKV_VERB(name, ...)                                             \
  absl::StatusOr<name##Reply> Make(const name##Request&, const CallContext&) \
      override {                                                             \
    return Answer<name##Reply>();                                            \
  }
  TENSORKV_CHECKPOINT_METHODS(TENSORKV_VERB)
  TENSORKV_SERVER_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB

 private:
  template <typename Reply>
  absl::StatusOr<Reply> Answer() {
    if constexpr (std::is_same_v<Reply, ServerStatus>) {
      Reply reply;
      reply.set_version("test");
      reply.set_incarnation(kTestIncarnation);
      return reply;
    }
    if (when_asked_) when_asked_();
    return absl::FailedPreconditionError("no such part of the server");
  }

  const std::function<void()>& when_asked_;
};

// A server on a free port of 127.0.0.1, and a client of it.
class LiveService {
 public:
  using Interceptors = std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>;

  explicit LiveService(Interceptors interceptors = {},
                       uint32_t max_uploads = 0);
  ~LiveService();

  ::testing::NiceMock<MockTensorStore> store;
  ::testing::NiceMock<MockNamespaceAdmin> namespaces;
  FakeStaging staging;
  RecordingObserver observer;
  // Called before a call about the server, or of another server, is answered,
  // but for what the server is; may be null.
  std::function<void()> when_server_is_asked;
  // Of streams' progress.
  FakeAlarms alarms;

  // What a test sets before it asks for the stub comes before the call for
  // ThreadSanitizer too: both take the mutex of the observer, where it does not
  // see how gRPC orders them.
  Stubs& stub() {
    observer.num_handled();
    return *stub_;
  }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }
  // A client on another connection.
  std::unique_ptr<Stubs> Connect() const;
  const OpenStreams& open_streams() const { return open_streams_; }
  Tickets& tickets() { return tickets_; }
  size_t num_uploads_waiting() const { return services_.num_uploads_waiting(); }

  // Calls a method by its path with bytes that need not be a message.
  grpc::Status CallWithBytes(const std::string& path, const std::string& bytes);
  // Begins it, and sends nothing.
  grpc::Status CallWithoutMessage(const std::string& path) {
    return EndWithoutMessage(path, /*cancels=*/false);
  }
  // Begins it, and cancels it.
  grpc::Status CancelWithoutMessage(const std::string& path) {
    return EndWithoutMessage(path, /*cancels=*/true);
  }

 private:
  grpc::Status EndWithoutMessage(const std::string& path, bool cancels);

  const CallDispatch calls_{
      {.store = &store, .namespaces = &namespaces, .staging = &staging}};
  FewServerAnswers server_answers_{&when_server_is_asked};
  StripedCalls striped_calls_;
  Tickets tickets_;
  OpenStreams open_streams_;
  const Incarnation incarnation_{kTestIncarnation};
  const StreamCall::Environment streams_;
  Handlers handlers_;
  TensorKvServices services_;
  UnimplementedService unimplemented_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stubs> stub_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_RPC_LIVE_SERVICE_H_
