// A call on a thread of its own, for tests of calls that wait.

#ifndef TENSORKV_TESTS_TESTING_BACKGROUND_H_
#define TENSORKV_TESTS_TESTING_BACKGROUND_H_

#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/mutex.h"

namespace tensorkv::testing {

// Runs `call` from construction on. The destructor waits for its end.
//
//   Background pull([&] { return store.Pull("w", 2); });
//   ...
//   EXPECT_OK(pull.Result());
template <typename Call>
class Background {
 public:
  explicit Background(Call call)
      : thread_([this, call = std::move(call)] {
          result_ = call();
          done_.Notify();
        }) {}
  ~Background() {
    if (thread_.joinable()) thread_.join();
  }

  // Whether the call has ended.
  bool IsDone() { return done_.HasBeenNotified(); }

  // Waits for the call's end. REQUIRES: called once.
  std::invoke_result_t<Call> Result() {
    thread_.join();
    return *std::move(result_);
  }

 private:
  Notification done_;
  std::optional<std::invoke_result_t<Call>> result_;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_BACKGROUND_H_
