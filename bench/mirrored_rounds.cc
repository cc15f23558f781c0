// How long a round takes that servers of this process sum together, beside one
// server with all workers: `mirrored_rounds MIB ROUNDS`, of 4 workers, whose
// values are compared bit by bit.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/client.h"
#include "client/cluster/connect.h"
#include "contract/placement.h"
#include "service/server/server.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kWorkers = 4;
constexpr char kNamespace[] = "bench";
constexpr char kKey[] = "w";

struct Servers {
  std::vector<std::unique_ptr<Server>> servers;
  std::unique_ptr<Connection> connection;
};

absl::StatusOr<Servers> Start(uint32_t num_servers) {
  Servers started;
  ClusterPlacement placement = {.cluster = "bench", .version = 1};
  for (uint32_t i = 0; i < num_servers; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Server> server,
                     Server::Create({.listen = "127.0.0.1:0",
                                     .budget_bytes = uint64_t{4} << 30}));
    placement.servers.push_back({.name = absl::StrCat("s", i),
                                 .address = server->address(),
                                 .is_live = true});
    placement.owners.push_back(i);
    started.servers.push_back(std::move(server));
  }
  std::vector<std::string> addresses;
  for (uint32_t i = 0; i < num_servers; ++i) {
    addresses.push_back(placement.servers[i].address);
    RETURN_IF_ERROR(
        started.servers[i]->SetPlacement(placement, placement.servers[i].name));
  }
  ASSIGN_OR_RETURN(started.connection,
                   ConnectTo({.target = absl::StrCat(
                                  "cluster:", absl::StrJoin(addresses, ","))},
                             /*observer=*/nullptr, Backoff()));
  return started;
}

absl::Status PushAndPull(Connection& connection, uint32_t rank, Step step,
                         const Tensor& tensor) {
  PushRequest push = {.name_space = kNamespace};
  push.worker = Worker{.rank = rank};
  push.step = step;
  push.entries.push_back({.key = kKey, .tensor = tensor});
  RETURN_IF_ERROR(connection.Call(push, {}).status());
  PullRequest pull = {.name_space = kNamespace};
  pull.worker = push.worker;
  pull.entries.push_back({.key = kKey});
  return connection.Call(pull, {}).status();
}

// The value after the rounds; `seconds` is the median of a round.
absl::StatusOr<Tensor> RunRounds(uint32_t num_servers, int64_t num_elements,
                                 Step rounds, double& seconds) {
  ASSIGN_OR_RETURN(const Servers started, Start(num_servers));
  Connection& connection = *started.connection;
  CreateNamespaceRequest create = {.name_space = kNamespace};
  create.config = {.mode = Mode::kSync, .num_workers = kWorkers};
  create.config.rule.name = "accumulate";
  create.config.mirrored = num_servers > 1;
  RETURN_IF_ERROR(connection.Call(create, {}).status());
  InitRequest init = {.name_space = kNamespace};
  ASSIGN_OR_RETURN(Tensor zeros,
                   Tensor::Filled(DType::kF32, {num_elements}, 0));
  init.entries.push_back({.key = kKey, .tensor = zeros});
  RETURN_IF_ERROR(connection.Call(init, {}).status());
  std::vector<Tensor> tensors;
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    ASSIGN_OR_RETURN(Tensor tensor, Tensor::Filled(DType::kF32, {num_elements},
                                                   0.1 * (rank + 1)));
    tensors.push_back(std::move(tensor));
  }
  std::vector<double> times;
  for (Step step = 1; step <= rounds; ++step) {
    std::vector<absl::Status> statuses(kWorkers);
    std::vector<std::thread> threads;
    const Clock::time_point start = Clock::now();
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      threads.emplace_back([&, rank] {
        statuses[rank] = PushAndPull(connection, rank, step, tensors[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    times.push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
    for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  }
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  seconds = times[times.size() / 2];
  PullRequest pull = {.name_space = kNamespace};
  pull.entries.push_back({.key = kKey});
  ASSIGN_OR_RETURN(PullReply reply, connection.Call(pull, {}));
  return std::move(reply.values[0].tensor);
}

absl::Status Run(int64_t mib, Step rounds) {
  const int64_t num_elements = mib << 18;
  double one_seconds = 0;
  ASSIGN_OR_RETURN(const Tensor one,
                   RunRounds(1, num_elements, rounds, one_seconds));
  std::printf("1 server:  %.1f ms per round\n", one_seconds * 1e3);
  for (const uint32_t num_servers : {2u, 4u}) {
    double seconds = 0;
    ASSIGN_OR_RETURN(const Tensor value,
                     RunRounds(num_servers, num_elements, rounds, seconds));
    const bool is_same =
        std::memcmp(one.data(), value.data(), one.size_bytes()) == 0;
    std::printf("%u servers: %.1f ms per round, %s bits\n", num_servers,
                seconds * 1e3, is_same ? "the same" : "OTHER");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) {
  const int64_t mib = argc > 1 ? std::atoll(argv[1]) : 16;
  const tensorkv::Step rounds = argc > 2 ? std::atoll(argv[2]) : 11;
  const absl::Status status = tensorkv::Run(mib, rounds);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
