#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "bench/data_path/loads.h"

namespace tensorkv::bench {
namespace tensorkv_load {

// What calls are made of: keys, and their values, which share memory.
struct Calls {
  ~Calls() {
    // The next load replaces what is left.
    client->Delete(keys, /*allow_missing=*/true).status().IgnoreError();
  }

  absl::Status Call() {
    switch (workload.verb) {
      case Verb::kPush:
        return client->Push(entries).status();
      case Verb::kPull:
        return Check(client->Pull(pull));
      case Verb::kPushPull:
        return Check(client->PushPull(entries));
    }
    return absl::OkStatus();
  }

  // Looks at the ends of the first value and of the last: other stores look at
  // the ends of all that came.
  absl::Status Check(const absl::StatusOr<PullReply>& reply) const {
    RETURN_IF_ERROR(reply.status());
    RETURN_IF_ERROR(CheckEnds(BytesOf(entries.front().tensor),
                              BytesOf(reply->values.front().tensor)));
    return CheckEnds(BytesOf(entries.back().tensor),
                     BytesOf(reply->values.back().tensor));
  }

  absl::Status Create() {
    // Loads that are there at the same time have keys of their own.
    static int lane = 0;
    ++lane;
    ASSIGN_OR_RETURN(const Tensor values, MakeValues(workload.size_bytes()));
    const int64_t bytes = workload.bytes_per_key;
    const Shape shape = {bytes / static_cast<int64_t>(sizeof(float))};
    std::vector<InitEntry> inits;
    for (int64_t i = 0; i < workload.num_keys; ++i) {
      RefPtr<Buffer> buffer = MakeRefCounted<AdoptedBuffer>(
          values.data() + i * bytes, bytes, [keep_alive = values] {});
      ASSIGN_OR_RETURN(
          const Tensor tensor,
          Tensor::FromBuffer(DType::kF32, shape, std::move(buffer)));
      keys.push_back(KeyText(lane, i));
      inits.push_back({.key = keys.back(), .tensor = tensor});
      entries.push_back({.key = keys.back(), .tensor = tensor});
      pull.entries.push_back({.key = keys.back()});
    }
    return client->Init(std::move(inits), OnExisting::kReplace);
  }

  std::shared_ptr<Client> client;
  Workload workload;
  std::vector<std::string> keys;
  std::vector<PushEntry> entries;
  PullRequest pull;
};

}  // namespace tensorkv_load

absl::StatusOr<std::shared_ptr<Client>> Connect(Servers* servers,
                                                const std::string& server,
                                                ClientOptions options,
                                                const NamespaceConfig& config) {
  ASSIGN_OR_RETURN(const ServerProcess process, servers->Get(server));
  options.target = process.address;
  options.timeout = kCallTimeout;
  const std::string name = options.name_space;
  ASSIGN_OR_RETURN(std::shared_ptr<Client> client,
                   Client::Connect(std::move(options)));
  if (!name.empty()) {
    RETURN_IF_ERROR(client->CreateNamespace(name, config, OnExisting::kKeep));
  }
  return client;
}

absl::StatusOr<Load> TensorkvLoad(std::shared_ptr<Client> client, pid_t server,
                                  const Workload& workload) {
  const auto calls = std::make_shared<tensorkv_load::Calls>();
  calls->client = std::move(client);
  calls->workload = workload;
  RETURN_IF_ERROR(calls->Create());
  return Load{.call = [calls] { return calls->Call(); },
              .bytes = workload.bytes_moved(),
              .keys = workload.num_keys,
              .server = server};
}

absl::StatusOr<Load> TensorkvLoad(Servers* servers, const std::string& server,
                                  const Workload& workload) {
  ASSIGN_OR_RETURN(const ServerProcess process, servers->Get(server));
  ASSIGN_OR_RETURN(std::shared_ptr<Client> client, Connect(servers, server));
  return TensorkvLoad(std::move(client), process.pid, workload);
}

}  // namespace tensorkv::bench
