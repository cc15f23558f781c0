// A WorkerClient whose server's answers and clock a test writes down.

#ifndef TENSORKV_TESTS_CLIENT_SCRIPTED_WORKER_H_
#define TENSORKV_TESTS_CLIENT_SCRIPTED_WORKER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/internal/retry/retry_loop.h"
#include "client/worker_client.h"
#include "contract/reason.h"
#include "tests/client/scripted_client.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {

// Of a synchronous namespace whose step 7 is the next.
class ScriptedWorkerTest : public ScriptedClientTest {
 protected:
  // A lease that no test lives to see renewed.
  static constexpr absl::Duration kLongLease = absl::Hours(1);

  ScriptedWorkerTest() {
    SetMode(v1::MODE_SYNC);
    script_.reply<DescribeNamespaceRequest>().mutable_status()->set_uid(17);
    script_.reply<JoinRequest>() =
        JoinedAs({.rank = 1, .epoch = 5}, /*next_step=*/7);
    script_.reply<PushRequest>().results = {{.step = 7}};
    script_.reply<PullRequest>().values.resize(1);
    script_.reply<PushPullRequest>().values.resize(1);
  }

  // Makes the namespace one of that mode.
  void SetMode(v1::Mode mode) {
    script_.reply<DescribeNamespaceRequest>()
        .mutable_status()
        ->mutable_config()
        ->set_mode(mode);
  }

  absl::StatusOr<std::unique_ptr<WorkerClient>> Join(
      const WorkerOptions& options) {
    return WorkerClient::Join(
        std::make_unique<Client>(MakeClient(client_options_)), options,
        environment_);
  }

  // A worker whose calls after Join end with `statuses`, then well.
  std::unique_ptr<WorkerClient> JoinedWorker(
      const std::vector<absl::Status>& statuses) {
    std::unique_ptr<WorkerClient> worker =
        Join({.name = "w1", .lease = kLongLease}).value();
    script_.verbs.clear();
    script_.statuses.assign(statuses.begin(), statuses.end());
    return worker;
  }

  ClientOptions client_options_ = {.name_space = "n"};
  absl::Duration now_ = absl::Seconds(1000);
  // Runs whenever somebody looks at the clock.
  std::function<void()> at_a_look_ = [] {};
  RetryEnvironment environment_ = {
      .now =
          [this] {
            at_a_look_();
            return now_;
          },
      .sleep = [this](absl::Duration pause, const auto&) { now_ += pause; },
      .random = [] { return 0.5; }};
};

// Returns the error of a call that waits for that round.
inline absl::Status RoundFailed(Step step = 7, absl::string_view key = "w") {
  return WithReason(absl::AbortedError("a round"), Reason::kRoundFailed,
                    {{"key", key}, {"step", step}, {"ranks", "2"}});
}

inline std::vector<PushEntry> EntriesOf(const std::vector<std::string>& keys) {
  std::vector<PushEntry> entries;
  for (const std::string& key : keys) {
    entries.push_back({.key = key, .tensor = Full({2}, 1)});
  }
  return entries;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_SCRIPTED_WORKER_H_
