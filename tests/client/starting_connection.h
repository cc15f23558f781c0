// A connection whose calls are started, so that tests of calls that wait cover
// those that do not.

#ifndef TENSORKV_TESTS_CLIENT_STARTING_CONNECTION_H_
#define TENSORKV_TESTS_CLIENT_STARTING_CONNECTION_H_

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "client/connection.h"

namespace tensorkv::testing {

// Starts each call at another connection, and waits until it has ended.
class StartingConnection final : public Connection {
 public:
  explicit StartingConnection(std::unique_ptr<Connection> inner)
      : inner_(std::move(inner)) {}

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    // Shared: whoever tells of the end may not be done with it yet.
    const auto has_ended = std::make_shared<Notification>();
    absl::Status ended = absl::InternalError("has not ended");
    inner_->Start(call, options, threads_, [&, has_ended](absl::Status status) {
      ended = std::move(status);
      has_ended->Notify();
    });
    has_ended->WaitForNotification();
    return ended;
  }

 private:
  const std::unique_ptr<Connection> inner_;
  CallThreads threads_{1};
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_STARTING_CONNECTION_H_
