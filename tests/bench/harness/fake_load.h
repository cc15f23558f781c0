// A load whose calls take the time that a test says.

#ifndef TENSORKV_TESTS_BENCH_HARNESS_FAKE_LOAD_H_
#define TENSORKV_TESTS_BENCH_HARNESS_FAKE_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bench/harness/load.h"

namespace tensorkv::testing {

// What several loads share: a clock, and a record of who ran.
struct FakeMachine {
  absl::Duration now;
  // The loads that ran, in order, with the number of their calls.
  std::vector<std::pair<std::string, int64_t>> runs;
};

class FakeLoad final : public bench::Load {
 public:
  FakeLoad(std::string name, const bench::LoadShape& shape,
           absl::Duration time_per_call, FakeMachine* machine)
      : Load(shape),
        name_(std::move(name)),
        time_per_call_(time_per_call),
        machine_(*machine) {}

  // Runs fail from then on.
  void Break(absl::Status status) { status_ = std::move(status); }
  void set_time_per_call(absl::Duration time) { time_per_call_ = time; }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    machine_.runs.emplace_back(name_, num_calls);
    machine_.now += num_calls * time_per_call_;
    latencies->insert(latencies->end(), num_calls, time_per_call_);
    return status_;
  }

 private:
  const std::string name_;
  absl::Duration time_per_call_;
  FakeMachine& machine_;
  absl::Status status_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_BENCH_HARNESS_FAKE_LOAD_H_
