#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/byte_size.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/json_text.h"
#include "client/cli/load.h"
#include "client/cli/usage_error.h"

namespace tensorkv {
namespace {

struct BenchFlags {
  std::string size = "1MiB";
  int num_keys = 1;
  int num_threads = 1;
  std::string time = "3s";
};

// The calls of one thread, which it makes again and again.
struct BenchCalls {
  std::vector<PushEntry> push;
  PullRequest pull;
};

// BenchPlan holds what the flags ask for.
struct BenchPlan {
  Tensor value;
  absl::Duration time;
  // By thread.
  std::vector<BenchCalls> calls;

  uint64_t bytes_per_call() const {
    return calls[0].push.size() * value.size_bytes();
  }
};

absl::StatusOr<BenchPlan> MakePlan(const BenchFlags& flags) {
  BenchPlan plan;
  if (!absl::ParseDuration(flags.time, &plan.time) ||
      plan.time <= absl::ZeroDuration()) {
    return UsageError(absl::StrCat("--time=", flags.time,
                                   ": expected more than zero, as 3s"));
  }
  const absl::StatusOr<uint64_t> size = ParseByteSize(flags.size);
  if (!size.ok()) return AsUsageError("--size", size.status());
  const auto num_elements = static_cast<int64_t>(*size / sizeof(float));
  if (num_elements < 1) {
    return UsageError(
        absl::StrCat("--size=", flags.size, ": expected 4 bytes or more"));
  }
  ASSIGN_OR_RETURN(plan.value,
                   Tensor::Filled(DType::kF32, {num_elements}, 1.0));
  plan.calls.resize(flags.num_threads);
  for (size_t thread = 0; thread < plan.calls.size(); ++thread) {
    BenchCalls& calls = plan.calls[thread];
    for (int i = 0; i < flags.num_keys; ++i) {
      const std::string key = absl::StrCat("thread-", thread, "/key-", i);
      calls.push.push_back({.key = key, .tensor = plan.value});
      calls.pull.entries.push_back({.key = key});
    }
  }
  return plan;
}

absl::Status InitKeys(const BenchPlan& plan, Client& client) {
  for (const BenchCalls& calls : plan.calls) {
    std::vector<InitEntry> entries;
    for (const PushEntry& entry : calls.push) {
      entries.push_back({entry.key, plan.value});
    }
    RETURN_IF_ERROR(client.Init(std::move(entries)));
  }
  return absl::OkStatus();
}

// Pushes and then pulls in the namespace of `client`.
absl::StatusOr<std::vector<LoadResult>> Measure(BenchPlan& plan,
                                                Client& client) {
  RETURN_IF_ERROR(InitKeys(plan, client));
  const auto push = [&](int thread) {
    return client.PushLent(plan.calls[thread].push).status();
  };
  const auto pull = [&](int thread) {
    return client.PullLent(plan.calls[thread].pull).status();
  };
  const auto num_threads = static_cast<int>(plan.calls.size());
  std::vector<LoadResult> results(2);
  ASSIGN_OR_RETURN(results[0], RunLoad(num_threads, plan.time, push));
  results[0].call = "push";
  ASSIGN_OR_RETURN(results[1], RunLoad(num_threads, plan.time, pull));
  results[1].call = "pull";
  for (LoadResult& result : results) {
    result.bytes_per_call = plan.bytes_per_call();
  }
  return results;
}

absl::Status RunBench(const BenchFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(BenchPlan plan, MakePlan(flags));
  const std::string name =
      absl::StrFormat("tensorkv-bench-%08x", std::random_device()());
  ASSIGN_OR_RETURN(Client client, invocation.client_in(name));
  RETURN_IF_ERROR(client.CreateNamespace(name, {}));
  const absl::StatusOr<std::vector<LoadResult>> results = Measure(plan, client);
  absl::Status removed = client.DeleteNamespace(name);
  RETURN_IF_ERROR(results.status());
  RETURN_IF_ERROR(removed);
  invocation.Print(*results, LoadResultJson, LoadTable(*results));
  return absl::OkStatus();
}

}  // namespace

void AddBenchCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* const command = app.add_subcommand(
      "bench",
      "Measure pushes and pulls, in a namespace that is made for it and "
      "removed");
  command->add_option("--size", flags->size, "Bytes of a key, such as 1MiB")
      ->capture_default_str();
  command->add_option("--keys", flags->num_keys, "Keys in a call")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--threads", flags->num_threads, "Calls at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--time", flags->time, "Of pushes, and then of pulls")
      ->capture_default_str();
  OnRun(*command, action, flags, RunBench);
}

}  // namespace tensorkv
