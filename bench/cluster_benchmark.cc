// How fast one client pushes to a cluster, and pulls from it:
//
//   cluster_benchmark TARGET LARGE_BYTES NUM_KEYS KEY_BYTES ROUNDS
//
// prints MB/s (10^6 bytes), of the median of ROUNDS calls: of a Push and of a
// Pull of one tensor of LARGE_BYTES, then of NUM_KEYS keys of KEY_BYTES each.
// Values are received in memory of the client. tools/bench_cluster starts the
// servers.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "bench/harness/clocks.h"
#include "bench/harness/statistics.h"
#include "client/client.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

constexpr char kNamespace[] = "bench";

// Keys of one size, with a tensor for each.
struct Load {
  std::vector<std::string> keys;
  std::vector<PushEntry> pushes;
  std::vector<Tensor> memory;
  std::vector<Destination> destinations;
  double bytes = 0;
};

absl::StatusOr<Load> MakeLoad(const std::string& prefix, int64_t num_keys,
                              int64_t key_bytes) {
  Load load;
  const Shape shape = {key_bytes / 4};
  for (int64_t i = 0; i < num_keys; ++i) {
    load.keys.push_back(absl::StrCat(prefix, i));
    ASSIGN_OR_RETURN(Tensor pushed, Tensor::Filled(DType::kF32, shape, 1));
    load.pushes.push_back({.key = load.keys.back(), .tensor = pushed});
    ASSIGN_OR_RETURN(Tensor pulled, Tensor::Filled(DType::kF32, shape, 0));
    load.destinations.push_back(
        {DType::kF32, shape,
         absl::MakeSpan(pulled.mutable_data(), pulled.size_bytes())});
    load.memory.push_back(std::move(pulled));
    load.bytes += static_cast<double>(pushed.size_bytes());
  }
  return load;
}

absl::Status Create(Client& client, const Load& load) {
  std::vector<InitEntry> entries;
  for (const PushEntry& push : load.pushes) {
    entries.push_back({.key = push.key, .tensor = push.tensor});
  }
  return client.Init(std::move(entries), OnExisting::kReplace);
}

// The median of the times that `call` takes; the first does not count.
template <typename Call>
absl::StatusOr<double> MedianSeconds(int rounds, Call call) {
  std::vector<double> times;
  for (int i = 0; i <= rounds; ++i) {
    const absl::Duration start = SteadyTime();
    RETURN_IF_ERROR(call());
    if (i > 0) times.push_back(absl::ToDoubleSeconds(SteadyTime() - start));
  }
  return Median(std::move(times));
}

absl::Status Measure(Client& client, const char* name, const Load& load,
                     int rounds) {
  RETURN_IF_ERROR(Create(client, load));
  ASSIGN_OR_RETURN(const double push, MedianSeconds(rounds, [&] {
                     return client.Push(load.pushes).status();
                   }));
  Client into = client.Into(load.destinations);
  ASSIGN_OR_RETURN(const double pull, MedianSeconds(rounds, [&] {
                     return into.Pull(load.keys).status();
                   }));
  std::printf("%s push %.1f\n%s pull %.1f\n", name, load.bytes / push / 1e6,
              name, load.bytes / pull / 1e6);
  return client.Delete(load.keys).status();
}

absl::Status Run(const std::string& target,
                 const std::vector<int64_t>& numbers) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Connect({.target = target,
                                    .name_space = kNamespace,
                                    .timeout = absl::Minutes(10)}));
  RETURN_IF_ERROR(client->CreateNamespace(kNamespace, {}, OnExisting::kKeep));
  const int rounds = static_cast<int>(numbers[3]);
  {
    ASSIGN_OR_RETURN(const Load load, MakeLoad("large", 1, numbers[0]));
    RETURN_IF_ERROR(Measure(*client, "large", load, rounds));
  }
  ASSIGN_OR_RETURN(const Load load, MakeLoad("k", numbers[1], numbers[2]));
  return Measure(*client, "keys", load, rounds);
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) {
  std::vector<int64_t> numbers(4);
  bool is_right = argc == 6;
  for (int i = 2; is_right && i < argc; ++i) {
    is_right = absl::SimpleAtoi(argv[i], &numbers[i - 2]) && numbers[i - 2] > 0;
  }
  if (!is_right) {
    std::cerr << "cluster_benchmark: expected TARGET LARGE_BYTES NUM_KEYS "
                 "KEY_BYTES ROUNDS\n";
    return 2;
  }
  const absl::Status status = tensorkv::bench::Run(argv[1], numbers);
  if (status.ok()) return 0;
  std::cerr << "cluster_benchmark: " << status << "\n";
  return 1;
}
