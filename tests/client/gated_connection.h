// A connection whose calls wait until the test lets them go on.

#ifndef TENSORKV_TESTS_CLIENT_GATED_CONNECTION_H_
#define TENSORKV_TESTS_CLIENT_GATED_CONNECTION_H_

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/connection.h"

namespace tensorkv::testing {

// Decides how calls of Push, Pull and PushPull go. A call is known by its verb
// and first key, as "Push w". Thread-safe.
class Gate {
 public:
  // Calls wait at the gate from now on, or no longer.
  void Close() { Set(&is_open_, false); }
  void Open() { Set(&is_open_, true); }
  // Lets one call pass that waits there or will come.
  void LetPass(const std::string& call) {
    MutexLock lock(&mutex_);
    passes_.insert(call);
    changed_.SignalAll();
  }
  // What the call returns.
  void Fail(const std::string& call, absl::Status status) {
    MutexLock lock(&mutex_);
    statuses_[call] = std::move(status);
  }

  // Returns when so many calls wait at the gate.
  void WaitForWaiting(size_t count) {
    MutexLock lock(&mutex_);
    while (num_waiting_ < count) changed_.Wait(&mutex_);
  }
  // Returns when so many calls have come to the gate.
  void WaitForBegun(size_t count) {
    MutexLock lock(&mutex_);
    while (begun_.size() < count) changed_.Wait(&mutex_);
  }
  // The calls that have come to the gate, in their order.
  std::vector<std::string> begun() {
    MutexLock lock(&mutex_);
    return begun_;
  }
  // The most calls that have waited at the same time.
  size_t most_waiting() {
    MutexLock lock(&mutex_);
    return most_waiting_;
  }

  // For the connection.
  absl::Status Pass(const std::string& call) {
    MutexLock lock(&mutex_);
    begun_.push_back(call);
    most_waiting_ = std::max(most_waiting_, ++num_waiting_);
    changed_.SignalAll();
    while (!is_open_ && passes_.count(call) == 0) changed_.Wait(&mutex_);
    if (const auto pass = passes_.find(call); pass != passes_.end()) {
      passes_.erase(pass);
    }
    --num_waiting_;
    return statuses_[call];
  }

 private:
  void Set(bool* flag, bool value) {
    MutexLock lock(&mutex_);
    *flag = value;
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = true;
  std::multiset<std::string> passes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> begun_ ABSL_GUARDED_BY(mutex_);
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t most_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Sends its calls through a gate that outlives it; they succeed with an empty
// answer for each entry. All other verbs are Unimplemented.
class GatedConnection final : public Connection {
 public:
  explicit GatedConnection(Gate& gate) : gate_(gate) {}

  absl::Status Attempt(const AnyCall& call, const CallOptions&) override {
    return call.Visit([&](const auto& request, auto& reply) {
      if constexpr (requires { request.entries, reply.results; }) {
        reply.results.resize(request.entries.size());
        return Pass(call.method(), request.entries);
      } else if constexpr (requires { request.entries, reply.values; }) {
        reply.values.resize(request.entries.size());
        return Pass(call.method(), request.entries);
      }
      return absl::UnimplementedError("");
    });
  }

 private:
  template <typename Entries>
  absl::Status Pass(Method method, const Entries& entries) {
    const std::string key = entries.empty() ? "" : entries[0].key;
    return gate_.Pass(std::string(NameOf(method)) + " " + key);
  }

  Gate& gate_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_GATED_CONNECTION_H_
