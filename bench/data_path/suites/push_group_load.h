// Several workers that push at the same time.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_PUSH_GROUP_LOAD_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_PUSH_GROUP_LOAD_H_

#include <sys/types.h>

#include <barrier>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "bench/harness/load.h"
#include "client/client.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {

struct PushGroup {
  // One per worker, each pushing to the key of its index.
  std::vector<std::unique_ptr<Client>> workers;
  std::vector<std::string> keys;
  Tensor value;
  // Returns when what was pushed stands, if the replies do not say so. Gets
  // the number of the call, from 1.
  std::function<absl::Status(int64_t)> await_effect = [](int64_t) {
    return absl::OkStatus();
  };
  // Runs when the load is destroyed.
  std::function<void()> clean_up = [] {};
  pid_t server = 0;
};

// In each call every worker pushes once; they begin together, on threads of
// their own, and the call ends when all have and the effect stands.
class PushGroupLoad final : public Load {
 public:
  explicit PushGroupLoad(PushGroup group);
  ~PushGroupLoad() override { group_.clean_up(); }

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override;

 private:
  void RunWorker(size_t index, int64_t num_calls, std::barrier<>* barrier,
                 std::vector<absl::Duration>* latencies);
  absl::Status status();
  void Note(const absl::Status& status);

  const PushGroup group_;
  int64_t num_calls_done_ = 0;  // of the first worker's thread
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_PUSH_GROUP_LOAD_H_
