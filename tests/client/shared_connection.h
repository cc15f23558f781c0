// One connection for many owners.

#ifndef TENSORKV_TESTS_CLIENT_SHARED_CONNECTION_H_
#define TENSORKV_TESTS_CLIENT_SHARED_CONNECTION_H_

#include "client/connection.h"

namespace tensorkv::testing {

// Passes every call on to a connection that it does not own and that outlives
// it. As thread-safe as that connection. Decorators override what they change.
class SharedConnection : public Connection {
 public:
  explicit SharedConnection(Connection& store) : store_(store) {}

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    return call.Visit([&](const auto& request, auto& reply) -> absl::Status {
      if constexpr (requires { Make(request, options); }) {
        auto made = Make(request, options);
        if (made.ok()) reply = *std::move(made);
        return made.status();
      }
      return store_.Attempt(call, options);
    });
  }

 protected:
  virtual absl::StatusOr<PushReply> Make(const PushRequest& request,
                                         const CallOptions& options) {
    return store_.Call(request, options);
  }
  virtual absl::StatusOr<PullReply> Make(const PullRequest& request,
                                         const CallOptions& options) {
    return store_.Call(request, options);
  }
  virtual absl::StatusOr<PullReply> Make(const PushPullRequest& request,
                                         const CallOptions& options) {
    return store_.Call(request, options);
  }
  virtual absl::StatusOr<PushReply> Make(const PushRowsRequest& request,
                                         const CallOptions& options) {
    return store_.Call(request, options);
  }
  virtual absl::StatusOr<PullReply> Make(const PullRowsRequest& request,
                                         const CallOptions& options) {
    return store_.Call(request, options);
  }
  virtual absl::StatusOr<BarrierReply> Make(const BarrierRequest& request,
                                            const CallOptions& options) {
    return store_.Call(request, options);
  }

 private:
  Connection& store_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_SHARED_CONNECTION_H_
