#include "service/server/server_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/listen_address.h"
#include "base/status_macros.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Messages that carry any tensor at all, up to Protocol Buffers' own bound.
constexpr uint64_t kMinMessageBytes = 1024;
constexpr uint64_t kMaxMessageBytes = (uint64_t{1} << 31) - 1;

absl::Status CheckRange(const char* option, uint64_t value, uint64_t min,
                        uint64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": expected ", min, " to ", max, ", got ", value));
}

absl::Status CheckListen(const ServerOptions& options) {
  if (!IsListenAddress(options.listen)) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen: expected host:port or unix:/path, got \"",
                     options.listen, "\""));
  }
  if (options.insecure || IsLocalAddress(options.listen)) {
    return absl::OkStatus();
  }
  if (!options.tls.is_on()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen: ", options.listen,
        " can be reached from other machines, who read and change what passes: "
        "give --tls_cert and --tls_key, listen on a loopback address or "
        "unix:/path, or accept plain text with --insecure"));
  }
  if (!options.policy_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "listen: ", options.listen,
      " can be reached from other machines, who may then do everything: give "
      "--policy_file, or accept that with --insecure"));
}

absl::Status CheckTls(const ServerOptions& options) {
  const TlsOptions& tls = options.tls;
  if (tls.cert.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        tls.cert.empty() ? "tls_cert" : "tls_key",
        ": expected the certificate and its key, got one of them"));
  }
  if (!tls.is_on()) {
    if (tls.client_ca.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "tls_cert: expected one, as there is a tls_client_ca");
  }
  if (IsUnixSocket(options.listen)) {
    return absl::InvalidArgumentError(
        "tls_cert: expected none, as Unix sockets are not encrypted");
  }
  if (tls.client_cert_is_optional && tls.client_ca.empty()) {
    return absl::InvalidArgumentError(
        "tls_client_ca: expected one, as there is a tls_client_auth");
  }
  return absl::OkStatus();
}

absl::Status CheckAccess(const ServerOptions& options) {
  if (options.token_file.empty() || !options.policy_file.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "policy_file: expected one that says what the bearers of tokens may do, "
      "as there is a token_file");
}

absl::Status CheckMetricsListen(const ServerOptions& options) {
  const std::string& address = options.metrics_listen;
  if (address.empty()) return absl::OkStatus();
  if (!IsNumericAddress(address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metrics_listen: expected a numeric address with a port, such as "
        "127.0.0.1:9464, got \"",
        address, "\""));
  }
  if (options.metrics_tls && !options.tls.is_on()) {
    return absl::InvalidArgumentError(
        "tls_cert: expected one, as there is metrics_tls");
  }
  if (options.insecure || IsLocalAddress(address)) return absl::OkStatus();
  if (options.metrics_tls && options.tls.needs_client_cert()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "metrics_listen: ", address,
      " can be reached from other machines, who then read the names of "
      "namespaces and how much they hold, and on the status page those of keys "
      "and workers: give --metrics_tls and --tls_client_ca, take a loopback "
      "address, or accept that with --insecure"));
}

absl::Status CheckBudgets(const ServerOptions& options) {
  if (options.budget_bytes != 0 && options.budget_bytes < kMinBudgetBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("budget: expected at least ", kMinBudgetBytes,
                     " bytes, got ", options.budget_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckCheckpoints(const ServerOptions& options) {
  RETURN_IF_ERROR(
      CheckRange("checkpoint_keep", options.checkpoint_keep, 1, 1'000'000));
  RETURN_IF_ERROR(CheckRange("checkpoint_full_every",
                             options.checkpoint_full_every, 1, 1000));
  const absl::Duration interval = options.checkpoint_interval;
  if (interval == absl::ZeroDuration()) return absl::OkStatus();
  if (options.checkpoint_dir.empty()) {
    return absl::InvalidArgumentError(
        "checkpoint_interval: expected a checkpoint_dir for it, got none");
  }
  if (interval >= absl::Seconds(1)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint_interval: expected 0 or at least 1s, got ",
                   absl::FormatDuration(interval)));
}

// Returns whether etcd's messages take the text, and a line of the log shows it
// whole.
bool IsText(absl::string_view text) { return CheckKey(text).ok(); }

bool IsWholeName(absl::string_view name) {
  return IsText(name) && !absl::StrContains(name, '/');
}

// Returns whether clients can go to the address as it stands.
bool IsOneAddress(absl::string_view listen) {
  return !absl::StartsWith(listen, "0.0.0.0:") &&
         !absl::StartsWith(listen, "[::]:") && !IsUnixSocket(listen);
}

absl::Status CheckLease(absl::Duration lease) {
  const bool is_whole = absl::Trunc(lease, absl::Seconds(1)) == lease;
  if (is_whole && lease >= absl::Seconds(2) && lease <= absl::Minutes(10)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cluster_lease: expected whole seconds, 2s to 10m, got ",
                   absl::FormatDuration(lease)));
}

// A server renews its registration each third of the lease, and may have to try
// more than once; it has to see another's checkpoints to take it for lost.
absl::Status CheckLostAfter(const ClusterOptions& cluster) {
  if (cluster.lost_after == absl::ZeroDuration()) return absl::OkStatus();
  if (cluster.lost_after < 2 * cluster.lease) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster_lost_after: expected 0s or at least twice the lease, ",
        absl::FormatDuration(2 * cluster.lease), ", got ",
        absl::FormatDuration(cluster.lost_after)));
  }
  if (!cluster.checkpoints.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "cluster_lost_after: expected cluster_checkpoints beside it");
}

absl::Status CheckClusterAddress(const ClusterOptions& cluster,
                                 absl::string_view listen) {
  if (!cluster.address.empty() &&
      !(IsText(cluster.address) && IsListenAddress(cluster.address))) {
    return absl::InvalidArgumentError(
        "cluster_address: expected host:port in UTF-8");
  }
  if (cluster.address.empty() && !IsOneAddress(listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster_address: expected one, since clients cannot go to ", listen));
  }
  return absl::OkStatus();
}

absl::Status CheckEtcdAddresses(const ServerOptions& options) {
  const ClusterOptions& cluster = *options.cluster;
  if (cluster.etcd.empty()) {
    return absl::InvalidArgumentError("etcd: expected at least one address");
  }
  for (const std::string& address : cluster.etcd) {
    if (!IsListenAddress(address)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "etcd: expected host:port, got \"", absl::CHexEscape(address), "\""));
    }
    if (cluster.etcd_tls || options.insecure || IsLocalAddress(address)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "etcd: ", address,
        " is asked in plain text, and who changes what passes decides where "
        "clients send their calls: give https:// or --etcd_tls_ca, take a "
        "loopback address, or accept that with --insecure"));
  }
  return absl::OkStatus();
}

// Checks that both options are there, or none.
absl::Status CheckBoth(absl::string_view one, const std::string& its_value,
                       absl::string_view other,
                       const std::string& other_value) {
  if (its_value.empty() == other_value.empty()) return absl::OkStatus();
  const bool lacks_one = its_value.empty();
  return absl::InvalidArgumentError(
      absl::StrCat(lacks_one ? one : other, ": expected one, as there is an ",
                   lacks_one ? other : one));
}

absl::Status CheckEtcd(const ServerOptions& options) {
  const ClusterOptions& cluster = *options.cluster;
  RETURN_IF_ERROR(CheckEtcdAddresses(options));
  RETURN_IF_ERROR(CheckBoth("etcd_tls_cert", cluster.etcd_tls_cert,
                            "etcd_tls_key", cluster.etcd_tls_key));
  RETURN_IF_ERROR(CheckBoth("etcd_user", cluster.etcd_user,
                            "etcd_password_file", cluster.etcd_password_file));
  if (cluster.etcd_tls) return absl::OkStatus();
  for (const auto& [option, value] :
       {std::pair("etcd_tls_ca", &cluster.etcd_tls_ca),
        {"etcd_tls_cert", &cluster.etcd_tls_cert},
        {"etcd_user", &cluster.etcd_user}}) {
    if (value->empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": expected https:// before the addresses of etcd beside it"));
  }
  return absl::OkStatus();
}

absl::Status CheckCluster(const ClusterOptions& cluster,
                          absl::string_view listen) {
  if (!IsWholeName(cluster.cluster)) {
    return absl::InvalidArgumentError(
        "cluster: expected a name in UTF-8 without '/'");
  }
  if (!IsWholeName(cluster.server_name)) {
    return absl::InvalidArgumentError(
        "server_name: expected a name in UTF-8 without '/', as there is an "
        "etcd");
  }
  RETURN_IF_ERROR(CheckClusterAddress(cluster, listen));
  if (!(cluster.weight > 0 && cluster.weight <= 1e6)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster_weight: expected above 0, up to a million, got ",
                     cluster.weight));
  }
  RETURN_IF_ERROR(CheckLease(cluster.lease));
  RETURN_IF_ERROR(CheckLostAfter(cluster));
  RETURN_IF_ERROR(CheckRange("cluster_size", cluster.size, 1, 10'000));
  if (cluster.num_partitions == 0) return absl::OkStatus();
  return CheckRange("cluster_partitions", cluster.num_partitions, cluster.size,
                    1 << 18);
}

// In plain text neither is used.
absl::Status CheckClusterTls(const ServerOptions& options) {
  const ClusterOptions& cluster = *options.cluster;
  if (options.tls.is_on() ||
      (cluster.tls_ca.empty() && cluster.token_file.empty())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      cluster.tls_ca.empty() ? "cluster_token_file" : "cluster_tls_ca",
      ": expected a tls_cert beside it, as it is for TLS between servers"));
}

}  // namespace

uint64_t MaxUnfinishedBytes(const ServerOptions& options,
                            uint64_t budget_bytes) {
  if (options.max_unfinished_bytes != 0) return options.max_unfinished_bytes;
  return std::max(budget_bytes / 8, 4 * options.max_message_bytes);
}

absl::Status CheckServerOptions(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckListen(options));
  RETURN_IF_ERROR(CheckTls(options));
  RETURN_IF_ERROR(CheckAccess(options));
  RETURN_IF_ERROR(CheckMetricsListen(options));
  RETURN_IF_ERROR(CheckBudgets(options));
  RETURN_IF_ERROR(CheckCheckpoints(options));
  if (options.cluster) {
    RETURN_IF_ERROR(CheckEtcd(options));
    RETURN_IF_ERROR(CheckCluster(*options.cluster, options.listen));
    RETURN_IF_ERROR(CheckClusterTls(options));
  }
  RETURN_IF_ERROR(CheckRange("max_message_bytes", options.max_message_bytes,
                             kMinMessageBytes, kMaxMessageBytes));
  RETURN_IF_ERROR(CheckRange("max_streams", options.max_streams, 1, 1'000'000));
  if (options.stream_timeout < absl::Seconds(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream_timeout: expected at least 1s, got ",
                     absl::FormatDuration(options.stream_timeout)));
  }
  if (options.num_threads < 0 || options.num_threads > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: expected 0 to 4096, got ", options.num_threads));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
