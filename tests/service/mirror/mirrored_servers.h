// A namespace that several servers of this process hold, and the same on one.

#ifndef TENSORKV_TESTS_SERVICE_MIRROR_MIRRORED_SERVERS_H_
#define TENSORKV_TESTS_SERVICE_MIRROR_MIRRORED_SERVERS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/compression/compressor.h"
#include "client/local/local_connection.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/device_link.h"
#include "tests/contracts/caller.h"
#include "tests/service/mirror/mirror_network.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv::testing {

inline constexpr char kSpace[] = "n";

struct TestKey {
  std::string name;
  std::string rule;
  DType dtype = DType::kF32;
  int64_t num_elements = 0;
};

// Some that are in ranges, and some that are whole.
inline const TestKey kKeys[] = {
    {"sgd", "sgd(learning_rate=0.1,momentum=0.9)", DType::kF32, 12301},
    {"adam", "adam(learning_rate=0.01)", DType::kF32, 13000},
    {"bf16", "adam(learning_rate=0.01)", DType::kBF16, 12289},
    {"small", "accumulate", DType::kF32, 7},
    {"i32", "accumulate", DType::kI32, 30},
};

inline NamespaceConfig ConfigOf(uint32_t num_workers, bool mirrored,
                                Aggregation aggregation = Aggregation::kSum) {
  return {.mode = Mode::kSync,
          .num_workers = num_workers,
          .aggregation = aggregation,
          .mirrored = mirrored};
}

// What the worker of that rank brings: the bits of the sum depend on its order.
inline Tensor GradientOf(const TestKey& key, uint32_t rank, Step step) {
  std::minstd_rand random(
      static_cast<uint32_t>(rank * 1000003 + step * 101 + key.name.size()));
  std::vector<double> elements(key.num_elements);
  for (double& element : elements) {
    const int exponent = static_cast<int>(random() % 12);
    const auto bits = static_cast<int32_t>(random()) - (1 << 30);
    element = IsFloat(key.dtype) ? std::ldexp(bits, exponent - 36)
                                 : static_cast<double>(bits % 1000);
  }
  return Vector(elements, key.dtype);
}

// The same as the worker pushes it: of some ranks and steps encoded.
inline PushEntry PushOf(const TestKey& key, uint32_t rank, Step step) {
  constexpr const char* kEncodings[] = {"2bit:0.5", "topk:0.1", "i8:64"};
  PushEntry plain = {.key = key.name, .tensor = GradientOf(key, rank, step)};
  const size_t chosen = (rank + step) % (std::size(kEncodings) + 1);
  if (!IsFloat(key.dtype) || chosen == std::size(kEncodings)) return plain;
  Compressor compressor(
      {.rules = {{"", *Compression::Parse(kEncodings[chosen])}},
       .min_bytes = 0});
  return compressor.Compress(step, {std::move(plain)}).value()[0];
}

inline void Prepare(const Caller& store, const NamespaceConfig& config) {
  ASSERT_OK(store.Create(config));
  for (const TestKey& key : kKeys) {
    ASSERT_OK(store.SetRule(key.rule, key.name));
    ASSERT_OK(store.Init(key.name, Full({key.num_elements}, 1, key.dtype)));
  }
}

// Pushes a step of all keys, in calls and an order of its own, and waits for
// its rounds.
inline absl::Status TryStep(const Caller& worker, uint32_t rank, Step step,
                            bool has_weights, std::mt19937& random) {
  std::vector<const TestKey*> keys;
  for (const TestKey& key : kKeys) keys.push_back(&key);
  std::shuffle(keys.begin(), keys.end(), random);
  std::vector<PushEntry> entries;
  std::vector<PullEntry> pulled;
  for (const TestKey* key : keys) {
    pulled.push_back({.key = key->name});
    entries.push_back(PushOf(*key, rank, step));
    if (has_weights) {
      entries.back().weight = 0.75 * ((rank + step) % 5);
      if ((rank + step) % 3 == 0) entries.push_back(entries.back());
    }
    if (random() % 2 == 0 && key != keys.back()) continue;
    RETURN_IF_ERROR(worker.PushMany(std::exchange(entries, {}), step).status());
  }
  return worker.PullMany(std::move(pulled)).status();
}

// Steps that fail are made again.
inline void RunWorkers(const std::vector<Caller>& workers, Step first,
                       Step last, bool has_weights = false) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    threads.emplace_back([&, rank] {
      std::mt19937 random(rank);
      for (Step step = first; step <= last; ++step) {
        absl::Status status;
        do {
          status = TryStep(workers[rank], rank, step, has_weights, random);
        } while (ReasonOf(status) == Reason::kRoundFailed);
        ASSERT_OK(status);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class MirroredServersTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kServers = 3;
  static constexpr uint32_t kWorkers = 4;
  static constexpr uint64_t kGpuBytes = 256 << 20;

  void Start(MirrorTimes times = {.patience = absl::Seconds(30),
                                  .attempt = absl::Seconds(30)}) {
    std::vector<DeviceLink*> links(kServers);
    for (size_t i = 0; i < links_.size(); ++i) links[i] = links_[i].get();
    network_ = std::make_unique<MirrorNetwork>(kServers, times, links);
    for (uint32_t i = 0; i < kServers; ++i) {
      LocalConnectionOptions options = {.num_threads = 1};
      options.store.exchange = network_->exchange(i);
      if (i < gpus_.size()) {
        options.backend = gpus_[i].get();
        options.store.budget_bytes = host_bytes_;
        options.store.device_budget_bytes = kGpuBytes;
      }
      servers_.push_back(std::make_unique<LocalConnection>(options));
      Prepare(At(i), ConfigOf(kWorkers, /*mirrored=*/true, aggregation_));
    }
    Prepare(One(), ConfigOf(kWorkers, /*mirrored=*/false, aggregation_));
    // As clients of a cluster do, workers join everywhere.
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      for (uint32_t i = 0; i < kServers; ++i) Join(i, rank);
    }
    Choose(kServers);
  }
  // Has the first servers keep their tensors on GPUs.
  void OpenGpus(absl::Span<FakeGpu* const> gpus) {
    for (FakeGpu* const gpu : gpus) {
      gpus_.push_back(
          *CudaBackend::Create(gpu->Open(), {.quota_bytes = 2 * kGpuBytes}));
    }
  }
  ~MirroredServersTest() override { Close(); }
  // The servers end: nothing uses the GPUs any more.
  void Close() {
    if (network_ != nullptr) network_->Stop();
    servers_.clear();
    network_ = nullptr;
    links_.clear();
    gpus_.clear();
  }

  void Join(uint32_t server, uint32_t rank) {
    const auto joined = servers_[server]->Call(
        testing::JoinOf(kSpace, absl::StrCat("worker", rank), absl::Minutes(5),
                        rank),
        {});
    ASSERT_OK(joined);
    joined_.emplace_back(At(server).As(WorkerOf(joined->worker())));
  }
  // The workers, each at its server of so many.
  void Choose(uint32_t num_servers) {
    std::vector<uint32_t> servers(num_servers);
    std::iota(servers.begin(), servers.end(), 0u);
    ChooseOf(servers);
  }
  // Of these.
  void ChooseOf(const std::vector<uint32_t>& servers) {
    workers_.clear();
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      workers_.push_back(
          joined_[rank * kServers + servers[rank % servers.size()]]);
    }
  }

  Caller At(uint32_t server) { return Caller(*servers_[server], kSpace); }
  // The one server with all workers.
  Caller One() { return Caller(one_, kSpace); }
  const Caller& Worker(uint32_t rank) { return workers_[rank]; }
  const std::vector<Caller>& Workers() { return workers_; }
  std::vector<Caller> WorkersOfOne() {
    std::vector<Caller> workers;
    for (uint32_t i = 0; i < kWorkers; ++i) workers.push_back(One().As(i));
    return workers;
  }

  // All servers have values, versions and states that the one server has.
  void ExpectSame(uint32_t num_servers = kServers) {
    for (const TestKey& key : kKeys) {
      const absl::StatusOr<Value> expected = One().Pull(key.name);
      ASSERT_OK(expected);
      for (uint32_t i = 0; i < num_servers; ++i) {
        const absl::StatusOr<Value> value = At(i).Pull(key.name);
        ASSERT_OK(value);
        EXPECT_EQ(value->version, expected->version) << key.name << " at " << i;
        EXPECT_TRUE(BytesOf(value->tensor) == BytesOf(expected->tensor))
            << key.name << " at server " << i;
      }
    }
  }

  std::unique_ptr<MirrorNetwork> network_;
  std::vector<std::unique_ptr<CudaBackend>> gpus_;
  // The budget of the host's memory of servers with GPUs; before Start.
  uint64_t host_bytes_ = 256 << 20;
  // What servers make of contributions; before Start.
  Aggregation aggregation_ = Aggregation::kSum;
  // By server; before Start.
  std::vector<std::unique_ptr<DeviceLink>> links_;
  std::vector<std::unique_ptr<LocalConnection>> servers_;
  LocalConnection one_{{.num_threads = 1}};
  // By rank, at each server.
  std::vector<Caller> joined_;
  std::vector<Caller> workers_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_MIRROR_MIRRORED_SERVERS_H_
