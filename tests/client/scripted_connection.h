// A Connection whose answers a test writes down beforehand.

#ifndef TENSORKV_TESTS_CLIENT_SCRIPTED_CONNECTION_H_
#define TENSORKV_TESTS_CLIENT_SCRIPTED_CONNECTION_H_

#include <any>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"

namespace tensorkv::testing {

// What a ScriptedConnection was asked and what it answers. Outlives the
// connection, which the code under test owns.
class Script {
 public:
  // The status of each call, in order; OK after the last.
  std::deque<absl::Status> statuses;
  // Runs inside each call.
  std::function<void()> during_call = [] {};

  // The verbs called and their options, in order.
  std::vector<std::string> verbs;
  std::vector<absl::Duration> timeouts;
  std::vector<std::shared_ptr<Canceller>> cancellers;

  // What calls with such a request are answered if they are OK.
  template <typename Request>
  ReplyTo<Request>& reply() {
    return In<ReplyTo<Request>>(replies_[kMethodOf<Request>]);
  }
  // The latest such request.
  template <typename Request>
  Request& last() {
    return In<Request>(requests_[kMethodOf<Request>]);
  }

 private:
  template <typename T>
  static T& In(std::any& any) {
    if (!any.has_value()) any = T();
    return std::any_cast<T&>(any);
  }

  std::map<Method, std::any> replies_;
  std::map<Method, std::any> requests_;
};

// Thread-compatible.
class ScriptedConnection final : public Connection {
 public:
  explicit ScriptedConnection(Script& script) : script_(script) {}

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    script_.verbs.emplace_back(NameOf(call.method()));
    script_.timeouts.push_back(options.timeout);
    script_.cancellers.push_back(options.canceller);
    call.Visit([this]<typename Request>(const Request& request, auto& reply) {
      script_.last<Request>() = request;
      reply = script_.reply<Request>();
    });
    script_.during_call();
    if (script_.statuses.empty()) return absl::OkStatus();
    absl::Status status = script_.statuses.front();
    script_.statuses.pop_front();
    return status;
  }

 private:
  Script& script_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_SCRIPTED_CONNECTION_H_
