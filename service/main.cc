// tensorkv-server: serves a TensorKV store until SIGTERM or SIGINT.
//
// Exit status: 0 after a shutdown, 1 if the server cannot start now or its last
// checkpoint cannot be written, 2 for wrong flags, wrong files that they name
// and damaged checkpoints.

#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/alarms.h"
#include "service/allocator_memory.h"
#include "service/guard/connection_guard.h"
#include "service/server/log.h"
#include "service/server/memory_releaser.h"
#include "service/server/memory_size.h"
#include "service/server/server.h"
#include "service/server/server_flags.h"
#include "service/server/service_manager.h"
#include "spdlog/spdlog.h"

namespace tensorkv {
namespace {

// Each connection takes one; what the limit leaves is how many may be open.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

sigset_t ShutdownSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Returns the signals that the main thread waits for.
sigset_t AwaitedSignals() {
  sigset_t signals = ShutdownSignals();
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Reads the flags and their file again. Of what they say only the level of the
// log can change while the server runs. The files that they name for access are
// read again, too.
void Reload(int argc, char** argv, Server& server) {
  server.ReloadAccess();
  const std::variant<ServerFlags, EarlyExit> parsed =
      ParseServerFlags(argc, argv);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    spdlog::error("not reloaded: {}",
                  std::string(absl::StripSuffix(exit->text, "\n")));
    return;
  }
  const std::string& level = std::get<ServerFlags>(parsed).log_level;
  SetLogLevel("info");
  spdlog::info("reloaded log_level={}", level);
  SetLogLevel(level);
}

// Returns when somebody wants the process to end. From then on the next such
// signal ends it at once; one to reload is held back, as it would end it too.
void WaitForShutdownSignal(int argc, char** argv, Server& server) {
  const sigset_t signals = AwaitedSignals();
  const sigset_t shutdown_signals = ShutdownSignals();
  int received = 0;
  while (sigwait(&signals, &received) == 0 && received == SIGHUP) {
    Reload(argc, argv, server);
  }
  pthread_sigmask(SIG_UNBLOCK, &shutdown_signals, nullptr);
  spdlog::info("draining signal={}", strsignal(received));
}

// A server that was told to take more than there is gets killed, not refused.
void WarnOfBudget(uint64_t budget_bytes) {
  const uint64_t memory = MemorySizeBytes();
  if (budget_bytes <= memory) return;
  spdlog::warn("budget_bytes={} is more than the memory: memory_bytes={}",
               budget_bytes, memory);
}

void LogStart(const Server& server, const ServerOptions& options) {
  if (!server.why_not_cuda().empty()) {
    spdlog::info("tensors are kept on the CPU: {}", server.why_not_cuda());
  }
  const ServerStatus status = server.Describe();
  const std::string metrics = server.metrics_address();
  spdlog::info(
      "{} listen={} metrics={} tls={} access={} devices={} budget_bytes={} "
      "version={}",
      options.cluster ? "waiting for the cluster" : "ready", server.address(),
      metrics.empty() ? "off" : metrics, options.tls.is_on() ? "on" : "off",
      options.policy_file.empty() ? "everybody" : "policy",
      absl::StrJoin(status.devices(), ","), status.budget_bytes(),
      status.version());
  WarnOfBudget(status.budget_bytes());
  for (const v1::DeviceBudget& budget : status.device_budgets()) {
    spdlog::info("device={} budget_bytes={}", budget.device(),
                 budget.budget_bytes());
  }
}

// Returns 2 if what was asked for is wrong, cannot be had here, or is damaged;
// 1 if it cannot be had now.
int ReportFailure(const absl::Status& status) {
  std::fprintf(stderr, "tensorkv-server: %s\n",
               std::string(status.message()).c_str());
  const bool is_for_good = absl::IsInvalidArgument(status) ||
                           absl::IsFailedPrecondition(status) ||
                           absl::IsDataLoss(status);
  return is_for_good ? 2 : 1;
}

// Where the process has no such manager, nothing happens.
void Notify(absl::string_view state) {
  const char* const socket = std::getenv("NOTIFY_SOCKET");
  const absl::Status status =
      NotifyServiceManager(socket == nullptr ? "" : socket, state);
  if (!status.ok()) spdlog::warn("{}", std::string(status.message()));
}

int Serve(const ServerFlags& flags, int argc, char** argv) {
  SetUpLog(flags.log_level, flags.log_format);
  RaiseDescriptorLimit();
  // The distribution's Abseil would look for cycles at every lock that gRPC
  // takes.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Before any thread starts, so that none of them takes the signals.
  const sigset_t signals = AwaitedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  SteadyAlarms alarms;
  const MemoryReleaser releaser(flags.idle_memory, &AllocatorMemory(), &alarms);
  // Restored memory stays. Where there is no checkpoint yet, next to nothing is
  // allocated meanwhile.
  std::optional<GrowthInHugePages> growth;
  if (!flags.server.checkpoint_dir.empty()) growth.emplace();
  ServerOptions options = flags.server;
  if (flags.connection_guard) options.connection_filter = MakeConnectionGuard;
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(options);
  growth.reset();
  if (!server.ok()) return ReportFailure(server.status());
  LogStart(**server, options);
  Notify("READY=1");
  WaitForShutdownSignal(argc, argv, **server);
  Notify("STOPPING=1");
  (*server)->Shutdown(flags.drain_timeout);
  const absl::Status saved = (*server)->SaveLastCheckpoint();
  server->reset();
  spdlog::info("stopped");
  return saved.ok() ? 0 : 1;
}

int Main(int argc, char** argv) {
  // Whoever reads the log may go before the server does, as `tee` at Ctrl-C.
  std::signal(SIGPIPE, SIG_IGN);
  const std::variant<ServerFlags, EarlyExit> parsed =
      ParseServerFlags(argc, argv);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    std::fputs(exit->text.c_str(), exit->code == 0 ? stdout : stderr);
    return exit->code;
  }
  return Serve(std::get<ServerFlags>(parsed), argc, argv);
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) { return tensorkv::Main(argc, argv); }
