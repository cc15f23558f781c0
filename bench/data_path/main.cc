// Measures how fast tensors reach the server and come back, beside what bounds
// it and what one would use instead. tools/bench builds and runs it;
// docs/performance.md says what the rows mean.
//
// Exit status: 0, 1 without a server to measure, 2 for wrong flags.

#include <benchmark/benchmark.h>

#include <iostream>
#include <iterator>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "bench/data_path/rows.h"
#include "bench/harness/run.h"
#include "bench/harness/servers.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv::bench {
namespace {

struct Flags {
  RunFlags run;
  std::string reference_server = "bench/data_path/reference_server";
  CpuList server_cpus = {0};
  CpuList client_cpus = {1};
};

void AddCpus(const char* name, CpuList* cpus, CLI::App* app) {
  app->add_option(name, *cpus, "Where they run, such as 0 or 0,2")
      ->delimiter(',')
      ->check(CLI::Range(0, 1023))
      ->capture_default_str();
}

int Main(int argc, char** argv) {
  CLI::App app("Measures the data path beside its references.", "bench");
  Flags flags;
  AddRunFlags(&app, &flags.run);
  AddCpus("--server_cpus", &flags.server_cpus, &app);
  AddCpus("--client_cpus", &flags.client_cpus, &app);
  app.add_option("--reference_server", flags.reference_server,
                 "Path of reference_server")
      ->capture_default_str();
  if (const auto exit_status = Parse(argc, argv, &app)) return *exit_status;
  // Before any thread starts, so that all of them are bound.
  if (const absl::Status bound = BindTo(flags.client_cpus); !bound.ok()) {
    std::cerr << "bench: nobody is bound: " << bound.message() << "\n";
    flags.server_cpus.clear();
  }
  Servers servers({.tensorkv_server = flags.run.tensorkv_server,
                   .reference_server = flags.reference_server,
                   .cpus = flags.server_cpus});
  const auto server = servers.Get("tensorkv");
  if (!server.ok()) {
    std::cerr << "bench: " << server.status().message() << "\n";
    return 1;
  }
  benchmark::AddCustomContext("gRPC", grpc::Version());
  std::vector<Row> rows = CallRows(&servers);
  for (const auto& more : {TrainingRows, CheckpointRows, KeyRows}) {
    std::ranges::move(more(&servers), std::back_inserter(rows));
  }
  RunRows(rows, flags.run);
  return 0;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
