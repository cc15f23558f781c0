// A namespace with many keys.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_POPULATION_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_POPULATION_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/data_path/peers/servers.h"
#include "bench/harness/load.h"
#include "client/client.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {

// Keys of one size in a namespace of their own. Not thread-safe; outlives its
// loads.
class Population {
 public:
  static constexpr int64_t kValueBytes = 1024;
  static constexpr int kKeysPerCall = 100;

  // Creates the namespace and `num_keys` keys, a multiple of kKeysPerCall.
  // Errors: those of the calls.
  static absl::StatusOr<std::unique_ptr<Population>> Create(
      const ServerProcess& server, int64_t num_keys);

  int64_t num_keys() const { return num_keys_; }

  // Pushes to every key once.
  absl::Status PushAll();

  // Calls over kKeysPerCall keys, which are any of them: those that List has
  // on a page, or random ones.
  std::unique_ptr<Load> MakeListLoad();
  std::unique_ptr<Load> MakeStatLoad();
  std::unique_ptr<Load> MakePushLoad();

 private:
  Population(std::unique_ptr<Client> client, int64_t num_keys, pid_t server,
             Tensor value)
      : client_(std::move(client)),
        num_keys_(num_keys),
        server_(server),
        value_(std::move(value)) {}

  absl::Status Fill();
  // Calls with all keys, some at a time.
  absl::Status InBatches(
      absl::FunctionRef<absl::Status(const std::vector<std::string>&)> call);
  // Batches of random keys, none of them twice in a batch.
  std::vector<std::vector<std::string>> RandomBatches() const;
  LoadShape ShapeOf(int64_t bytes_per_call) const;

  const std::unique_ptr<Client> client_;
  const int64_t num_keys_;
  const pid_t server_;
  const Tensor value_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_POPULATION_H_
