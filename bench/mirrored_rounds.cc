// How long a round takes that several servers sum together, beside one server
// with all workers:
//
//   mirrored_rounds MIB ROUNDS SERVERS
//
// starts both in this process, and has 4 workers push one tensor of MIB and
// pull its value, a round with the one and a round with the others in turns.
// Prints the medians and their ratio. Both must have the same bits.

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
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "bench/harness/clocks.h"
#include "bench/harness/statistics.h"
#include "client/cluster/connect.h"
#include "contract/placement.h"
#include "service/server/server.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr char kNamespace[] = "bench";
constexpr char kKey[] = "w";

// What each of the workers brings to every round.
using Contributions = std::vector<Tensor>;

// Some servers with the key, mirrored if they are several.
class Group {
 public:
  static absl::StatusOr<std::unique_ptr<Group>> Start(uint32_t num_servers,
                                                      const Shape& shape) {
    std::unique_ptr<Group> group(new Group());
    RETURN_IF_ERROR(group->StartServers(num_servers));
    CreateNamespaceRequest create = {.name_space = kNamespace};
    create.config = {.mode = Mode::kSync, .num_workers = kWorkers};
    create.config.rule.name = "accumulate";
    create.config.mirrored = num_servers > 1;
    RETURN_IF_ERROR(group->connection_->Call(create, {}).status());
    InitRequest init = {.name_space = kNamespace};
    ASSIGN_OR_RETURN(Tensor zeros, Tensor::Filled(DType::kF32, shape, 0));
    init.entries.push_back({.key = kKey, .tensor = std::move(zeros)});
    RETURN_IF_ERROR(group->connection_->Call(init, {}).status());
    return group;
  }

  // All workers push, and pull what has come of it.
  absl::Status Round(const Contributions& contributions) {
    ++step_;
    std::vector<absl::Status> statuses(kWorkers);
    std::vector<std::thread> threads;
    const absl::Duration start = SteadyTime();
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      threads.emplace_back([&, rank] {
        statuses[rank] = PushAndPull(rank, contributions[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    times_.push_back(absl::ToDoubleSeconds(SteadyTime() - start));
    for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }
  void ForgetTimes() { times_.clear(); }
  double MedianSeconds() const { return Median(times_); }

  absl::StatusOr<Tensor> Pull() {
    PullRequest pull = {.name_space = kNamespace};
    pull.entries.push_back({.key = kKey});
    ASSIGN_OR_RETURN(PullReply reply, connection_->Call(pull, {}));
    return std::move(reply.values[0].tensor);
  }

 private:
  Group() = default;

  absl::Status StartServers(uint32_t num_servers) {
    ClusterPlacement placement = {.cluster = "bench", .version = 1};
    std::vector<std::string> addresses;
    for (uint32_t i = 0; i < num_servers; ++i) {
      ASSIGN_OR_RETURN(std::unique_ptr<Server> server,
                       Server::Create({.listen = "127.0.0.1:0",
                                       .budget_bytes = uint64_t{4} << 30}));
      addresses.push_back(server->address());
      placement.servers.push_back({.name = absl::StrCat("s", i),
                                   .address = server->address(),
                                   .is_live = true});
      placement.owners.push_back(i);
      servers_.push_back(std::move(server));
    }
    for (uint32_t i = 0; i < num_servers; ++i) {
      RETURN_IF_ERROR(
          servers_[i]->SetPlacement(placement, placement.servers[i].name));
    }
    ASSIGN_OR_RETURN(connection_,
                     ConnectTo({.target = absl::StrCat(
                                    "cluster:", absl::StrJoin(addresses, ","))},
                               /*observer=*/nullptr, Backoff()));
    return absl::OkStatus();
  }

  absl::Status PushAndPull(uint32_t rank, const Tensor& tensor) {
    PushRequest push = {.name_space = kNamespace};
    push.worker = Worker{.rank = rank};
    push.step = step_;
    push.entries.push_back({.key = kKey, .tensor = tensor});
    RETURN_IF_ERROR(connection_->Call(push, {}).status());
    PullRequest pull = {.name_space = kNamespace};
    pull.worker = push.worker;
    pull.entries.push_back({.key = kKey});
    return connection_->Call(pull, {}).status();
  }

  std::vector<std::unique_ptr<Server>> servers_;
  std::unique_ptr<Connection> connection_;
  Step step_ = 0;
  std::vector<double> times_;
};

absl::Status Run(int64_t mib, int rounds, uint32_t num_servers) {
  const Shape shape = {mib << 18};
  Contributions contributions;
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    ASSIGN_OR_RETURN(Tensor tensor,
                     Tensor::Filled(DType::kF32, shape, 0.1 * (rank + 1)));
    contributions.push_back(std::move(tensor));
  }
  ASSIGN_OR_RETURN(const auto one, Group::Start(1, shape));
  ASSIGN_OR_RETURN(const auto several, Group::Start(num_servers, shape));
  // The first round of each allocates memory and connects.
  for (int round = 0; round <= rounds; ++round) {
    for (Group* const group : {one.get(), several.get()}) {
      RETURN_IF_ERROR(group->Round(contributions));
      if (round == 0) group->ForgetTimes();
    }
  }
  ASSIGN_OR_RETURN(const Tensor value, one->Pull());
  ASSIGN_OR_RETURN(const Tensor mirrored, several->Pull());
  if (std::memcmp(value.data(), mirrored.data(), value.size_bytes()) != 0) {
    return absl::InternalError("the servers have other bits than the one");
  }
  const double seconds = one->MedianSeconds();
  const double mirrored_seconds = several->MedianSeconds();
  std::printf("1 server: %.1f ms a round; %u servers: %.1f ms; ratio %.2f\n",
              seconds * 1e3, num_servers, mirrored_seconds * 1e3,
              mirrored_seconds / seconds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) {
  const auto argument = [&](int index, int otherwise) {
    return argc > index ? std::atoi(argv[index]) : otherwise;
  };
  const int64_t mib = argument(1, 16);
  const int rounds = argument(2, 21);
  const int num_servers = argument(3, 4);
  if (mib < 1 || rounds < 1 || num_servers < 2 || num_servers > 4) {
    std::fprintf(stderr, "expected MIB and ROUNDS, and 2 to 4 SERVERS\n");
    return 2;
  }
  const absl::Status status =
      tensorkv::bench::Run(mib, rounds, static_cast<uint32_t>(num_servers));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
