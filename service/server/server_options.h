// Holds what a server can be told at its start.

#ifndef TENSORKV_SERVICE_SERVER_SERVER_OPTIONS_H_
#define TENSORKV_SERVICE_SERVER_SERVER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/cuda/open_cuda_backend.h"
#include "service/cluster/cluster_options.h"
#include "service/security/tls_options.h"
#include "service/server/connection_filter.h"
#include "service/server/device_choice.h"

namespace tensorkv {

// The least budget of a server: less holds hardly a key, its value, and what is
// kept of the calls of a few clients.
inline constexpr uint64_t kMinBudgetBytes = 1 << 20;

struct ServerOptions {
  // "host:port", "[address]:port" or "unix:/path"; port 0 takes a free one.
  std::string listen = "127.0.0.1:7363";

  // Accept a `listen` or `metrics_listen` address that other machines can
  // reach, although calls or metrics are in plain text there, or calls are for
  // everybody; and an etcd of other machines that is asked in plain text.
  bool insecure = false;

  // Encrypts connections over TCP.
  TlsOptions tls;

  // The time between two looks at the files that may change: those of TLS, of
  // access, and those by which the server connects to others.
  absl::Duration watch_period = absl::Seconds(2);

  // Names the file that says who may do what (service/security/policy.proto);
  // empty: everybody may do everything.
  std::string policy_file;

  // Names the file of the bearer tokens that the server takes
  // (service/security/token_file.h); empty: it takes none.
  std::string token_file;

  // "address:port", numeric, of /metrics, /healthz and /readyz; empty is off.
  std::string metrics_listen;

  // Encrypts that port too, by the files of `tls`. Where clients need
  // certificates, /healthz and /readyz answer without one, nothing else does.
  bool metrics_tls = false;

  // True if that port shows the status page too, and with it the names of keys
  // and workers to all who reach it, whatever the policy says.
  bool status_page = false;

  // Where tensors are kept.
  DeviceChoice device;

  // Bound on what tensors and keys take of the host's memory, at least
  // kMinBudgetBytes; 0 is 80 % of it.
  uint64_t budget_bytes = 0;

  // Bound on what snapshots keep of the host's memory besides what is free of
  // the budget; 0 is a sixteenth of that.
  uint64_t max_retained_bytes = 0;

  // Bound on what tensors take of the memory of the GPU, at most all that the
  // server has of it; 0 is 90 % of that.
  uint64_t device_budget_bytes = 0;

  // Bounds what the server has of the memory of the GPU, and may lock of the
  // host's.
  GpuMemoryOptions gpu_memory;

  // Says how the server's GPU, if it has one, reaches those of other servers:
  // by the library of NCCL of that name or path, or not at all ("off"). "auto"
  // is libnccl.so.2 in a cluster without TLS: NCCL does not encrypt what it
  // sends.
  std::string nccl = "auto";

  // Threads that one batch of updates may use; 0 is one per CPU.
  int num_threads = 0;

  // Bounds each message, either way: 1 KiB to 2 GiB - 1.
  uint64_t max_message_bytes = 64 << 20;

  // Bound on what messages may take of which a part has come, over all
  // connections in plain text: beyond it, those end that have the most. 0 is an
  // eighth of the budget, but at least four messages.
  uint64_t max_unfinished_bytes = 0;

  // Bounds the calls that one connection may have under way; more wait at the
  // client.
  uint32_t max_streams = 128;

  // Bounds the connections that may be open at once; others are closed as they
  // come. 0 is what the process's limit on descriptors leaves.
  uint32_t max_connections = 0;

  // Bounds the streams of tensors that may be open at once, over all
  // connections.
  uint32_t max_open_streams = 1024;

  // Bounds the streamed calls that receive tensors at once, over all
  // connections; more wait in their order, without memory for tensors, until
  // their deadlines. 0: any number.
  uint32_t max_uploads = 0;

  // A stream whose peer moves next to nothing for that long is cut off, and a
  // striped call whose stripes have not all come by then ends. The whole of a
  // large payload must move in 120 times as long.
  absl::Duration stream_timeout = absl::Seconds(30);

  // Bound on every wait, also of calls without a deadline.
  absl::Duration max_wait = absl::Minutes(5);

  // Calls that take that long or longer are logged.
  absl::Duration slow_call = absl::InfiniteDuration();

  // Where checkpoints are; empty: nowhere, and state is gone when the server
  // ends. The last one there is restored at the start.
  std::string checkpoint_dir;

  // Says how often a checkpoint is made; 0: only when somebody asks.
  absl::Duration checkpoint_interval;

  // Says how many checkpoints that the server has made by itself stay, at least
  // 1.
  uint32_t checkpoint_keep = 3;

  // One of so many checkpoints is written whole; at least 1. The others write
  // only what has changed, and share the files of the rest with those before.
  uint32_t checkpoint_full_every = 1;

  // True if the server starts from an older one where the last is damaged,
  // rather than not to start.
  bool checkpoint_fallback = false;

  // Nothing: the server is in no cluster, and every key is its own.
  std::optional<ClusterOptions> cluster;

  // Looks at connections in plain text before gRPC does; null: nothing does.
  MakeConnectionFilter connection_filter;
};

// Returns max_unfinished_bytes, with its default in place of 0, for a server
// whose budget is `budget_bytes`.
uint64_t MaxUnfinishedBytes(const ServerOptions& options,
                            uint64_t budget_bytes);

// Checks the options without reading a file. Errors: InvalidArgument, naming
// the option, for a value out of range, for options that do not go together, or
// for an address that needs `insecure`.
absl::Status CheckServerOptions(const ServerOptions& options);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_SERVER_OPTIONS_H_
