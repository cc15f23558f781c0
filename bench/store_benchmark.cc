// What a key costs in the store: calls on a MemoryTensorStore in this process,
// without a network. Each call has up to 10,000 keys, 256 bytes each, of a
// store that holds the number of keys in the row's name; or, where it is about
// rows, 1,000 rows of 256 bytes, of a table that has so many.
//
//   bazel build //bench:store_benchmark
//   bazel-bin/bench/store_benchmark --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/store/memory_tensor_store.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxKeysPerCall = 10'000;
constexpr int64_t kElements = 64;

int NumThreads() { return std::max(1u, std::thread::hardware_concurrency()); }

// A store full of keys, and requests for some of them.
class FullStore {
 public:
  FullStore(size_t num_keys, const std::string& rule)
      : backend_(NumThreads()),
        store_({.budget_bytes = uint64_t{1} << 40}, &backend_, &alarms_) {
    SetRuleRequest set_rule;
    set_rule.rule = RuleSpec{.name = rule};
    Check(store_.SetRule(set_rule));
    for (size_t i = 0; i < num_keys; ++i) names_.push_back(Name(i));
    for (size_t i = 0; i < num_keys; i += kMaxKeysPerCall) Create(i);
    // Calls name keys in no particular order.
    std::shuffle(names_.begin(), names_.end(), std::mt19937(1));
  }

  MemoryTensorStore& operator*() { return store_; }
  MemoryTensorStore* operator->() { return &store_; }
  size_t keys_per_call() const {
    return std::min(names_.size(), kMaxKeysPerCall);
  }

  // The names for the next call: each time others.
  absl::Span<const std::string> NextNames() {
    if (next_ + keys_per_call() > names_.size()) next_ = 0;
    next_ += keys_per_call();
    return absl::MakeConstSpan(names_).subspan(next_ - keys_per_call(),
                                               keys_per_call());
  }

  PushRequest NextPush() {
    PushRequest request;
    for (const std::string& name : NextNames()) {
      request.entries.push_back({name, false, Unfilled()});
    }
    std::vector<Tensor*> tensors;
    for (PushEntry& entry : request.entries) tensors.push_back(&entry.tensor);
    Check(store_.Allocate("", tensors));
    for (Tensor* tensor : tensors) {
      for (float& element : tensor->mutable_elements<float>()) element = 0.5;
    }
    return request;
  }

  PullRequest NextPull() {
    PullRequest request;
    for (const std::string& name : NextNames()) {
      request.entries.push_back({name, 0});
    }
    return request;
  }

  static void Check(const absl::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }
  template <typename Reply>
  static Reply Checked(absl::StatusOr<Reply> reply) {
    Check(reply.status());
    return *std::move(reply);
  }

 private:
  static std::string Name(size_t i) {
    return absl::StrFormat("layer%03d/weights/%06d", i % 100, i);
  }
  static Tensor Unfilled() {
    return *Tensor::WithoutData(DType::kF32, {kElements});
  }
  void Create(size_t begin) {
    InitRequest request;
    const size_t end = std::min(begin + kMaxKeysPerCall, names_.size());
    for (size_t i = begin; i < end; ++i) {
      request.entries.push_back(
          {names_[i], *Tensor::Filled(DType::kF32, {kElements}, 1)});
    }
    const Answer<absl::Status> answer;
    store_.Init(std::move(request), CallContext(),
                [answer](absl::StatusOr<InitReply> reply) {
                  answer.Set(reply.status());
                });
    Check(answer.Wait());
  }

  CpuBackend backend_;
  SteadyAlarms alarms_;
  MemoryTensorStore store_;
  std::vector<std::string> names_;
  size_t next_ = 0;
};

// Times `call` alone, and shows what it takes per key: in the median, and at
// best, which is what neighbours on the machine disturb least.
template <typename Prepare, typename Call>
void TimeCalls(benchmark::State& state, size_t keys_per_call, Prepare prepare,
               Call call) {
  std::vector<double> seconds;
  for (auto _ : state) {
    auto request = prepare();
    const auto start = std::chrono::steady_clock::now();
    auto reply = call(std::move(request));
    const std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - start;
    benchmark::DoNotOptimize(reply);
    state.SetIterationTime(elapsed.count());
    seconds.push_back(elapsed.count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double ns_per_key = 1e9 / keys_per_call;
  state.counters["ns/key"] = seconds[seconds.size() / 2] * ns_per_key;
  state.counters["best_ns/key"] = seconds[0] * ns_per_key;
}

void Push(benchmark::State& state, const std::string& rule) {
  FullStore store(state.range(0), rule);
  TimeCalls(
      state, store.keys_per_call(), [&] { return store.NextPush(); },
      [&](PushRequest request) {
        const Answer<absl::StatusOr<PushReply>> answer;
        store->Push(std::move(request), {},
                    [answer](absl::StatusOr<PushReply> reply) {
                      answer.Set(std::move(reply));
                    });
        return FullStore::Checked(answer.Wait());
      });
}

void PushPull(benchmark::State& state) {
  FullStore store(state.range(0), "sgd");
  TimeCalls(
      state, store.keys_per_call(), [&] { return store.NextPush(); },
      [&](PushRequest request) {
        const Answer<absl::StatusOr<PullReply>> answer;
        store->PushPull(std::move(request), {},
                        [answer](absl::StatusOr<PullReply> reply) {
                          answer.Set(std::move(reply));
                        });
        return FullStore::Checked(answer.Wait());
      });
}

void Pull(benchmark::State& state) {
  FullStore store(state.range(0), "assign");
  TimeCalls(
      state, store.keys_per_call(), [&] { return store.NextPull(); },
      [&](PullRequest request) {
        const Answer<absl::StatusOr<PullReply>> answer;
        store->Pull(std::move(request), {},
                    [answer](absl::StatusOr<PullReply> reply) {
                      answer.Set(std::move(reply));
                    });
        return FullStore::Checked(answer.Wait());
      });
}

void Stat(benchmark::State& state) {
  FullStore store(state.range(0), "assign");
  TimeCalls(
      state, store.keys_per_call(),
      [&] {
        const auto names = store.NextNames();
        return StatRequest{.keys = {names.begin(), names.end()}};
      },
      [&](StatRequest request) {
        absl::StatusOr<StatReply> reply = store->Stat(request);
        FullStore::Check(reply.status());
        return reply;
      });
}

// Pages through the keys.
void List(benchmark::State& state) {
  FullStore store(state.range(0), "assign");
  std::string page_token;
  TimeCalls(
      state, store.keys_per_call(),
      [&] {
        return ListRequest{.page_size = kMaxKeysPerCall,
                           .page_token = page_token};
      },
      [&](ListRequest request) {
        absl::StatusOr<ListReply> reply = store->List(request);
        FullStore::Check(reply.status());
        page_token = reply->next_page_token;
        return reply;
      });
}

// Memory for the contributions of a push.
void Stage(benchmark::State& state) {
  FullStore store(100, "assign");
  std::vector<Tensor> tensors(kMaxKeysPerCall,
                              *Tensor::WithoutData(DType::kF32, {kElements}));
  std::vector<Tensor*> pointers;
  for (Tensor& tensor : tensors) pointers.push_back(&tensor);
  TimeCalls(
      state, tensors.size(), [] { return 0; },
      [&](int) {
        FullStore::Check(store->Allocate("", pointers));
        return 0;
      });
}

// A table, and calls about rows of it.
class Table {
 public:
  static constexpr int64_t kRowsPerCall = 1000;

  Table(int64_t num_rows, const std::string& rule)
      : store_(0, rule), id_(0, num_rows - 1) {
    InitRequest request;
    request.entries = {
        {"table", *Tensor::WithoutData(DType::kF32, {num_rows, kElements})}};
    // Memory that the key keeps: there is one table, not two.
    Tensor* const table = &request.entries[0].tensor;
    FullStore::Check(store_->Allocate("", absl::MakeConstSpan(&table, 1)));
    for (float& element : table->mutable_elements<float>()) element = 1;
    const Answer<absl::StatusOr<InitReply>> answer;
    store_->Init(std::move(request), {},
                 [answer](absl::StatusOr<InitReply> reply) {
                   answer.Set(std::move(reply));
                 });
    FullStore::Check(answer.Wait().status());
    Push(NextPush());  // fills the states
  }

  PushRequest NextPush() {
    PushRequest request;
    request.entries = {
        {.key = "table",
         .tensor = *Tensor::Filled(DType::kF32, {kRowsPerCall, kElements}, 1),
         .rows = NextIds()}};
    return request;
  }
  PullRequest NextPull() {
    PullRequest request;
    request.entries = {{.key = "table", .rows = NextIds()}};
    return request;
  }

  PushReply Push(PushRequest request) {
    const Answer<absl::StatusOr<PushReply>> answer;
    store_->Push(std::move(request), {},
                 [answer](absl::StatusOr<PushReply> reply) {
                   answer.Set(std::move(reply));
                 });
    return FullStore::Checked(answer.Wait());
  }
  PullReply Pull(PullRequest request) {
    const Answer<absl::StatusOr<PullReply>> answer;
    store_->Pull(std::move(request), {},
                 [answer](absl::StatusOr<PullReply> reply) {
                   answer.Set(std::move(reply));
                 });
    return FullStore::Checked(answer.Wait());
  }

 private:
  RefPtr<const RowIds> NextIds() {
    Tensor ids = *Tensor::Allocate(DType::kI64, {kRowsPerCall});
    for (int64_t& id : ids.mutable_elements<int64_t>()) id = id_(random_);
    return *RowIds::Create(std::move(ids));
  }

  FullStore store_;
  std::mt19937 random_;
  std::uniform_int_distribution<int64_t> id_;
};

void PushRows(benchmark::State& state, const std::string& rule) {
  Table table(state.range(0), rule);
  TimeCalls(
      state, Table::kRowsPerCall, [&] { return table.NextPush(); },
      [&](PushRequest request) { return table.Push(std::move(request)); });
}

void PullRows(benchmark::State& state) {
  Table table(state.range(0), "assign");
  TimeCalls(
      state, Table::kRowsPerCall, [&] { return table.NextPull(); },
      [&](PullRequest request) { return table.Pull(std::move(request)); });
}

void TableSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(10)
      ->Range(100'000, 10'000'000)
      ->Unit(benchmark::kMicrosecond)
      ->UseManualTime();
}

void StoreSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(10)->Range(100, 1'000'000)->UseManualTime();
}

BENCHMARK_CAPTURE(Push, assign, "assign")->Apply(StoreSizes);
BENCHMARK_CAPTURE(Push, sgd, "sgd")->Apply(StoreSizes);
BENCHMARK(PushPull)->Apply(StoreSizes);
BENCHMARK(Pull)->Apply(StoreSizes);
BENCHMARK(Stat)->Apply(StoreSizes);
BENCHMARK(List)->Apply(StoreSizes);
BENCHMARK(Stage)->UseManualTime();
BENCHMARK_CAPTURE(PushRows, assign, "assign")->Apply(TableSizes);
BENCHMARK_CAPTURE(PushRows, adagrad, "adagrad")->Apply(TableSizes);
BENCHMARK(PullRows)->Apply(TableSizes);

}  // namespace
}  // namespace tensorkv

BENCHMARK_MAIN();
