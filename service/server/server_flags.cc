#include "service/server/server_flags.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/byte_size.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "service/security/access_control.h"
#include "service/security/server_tls.h"
#include "service/server/device_choice.h"
#include "service/server/peer_channels.h"

namespace tensorkv {
namespace {

// Flags that are texts with a meaning of their own, before they are read.
struct FlagTexts {
  std::string budget;         // empty: the default
  std::string device_budget;  // likewise
  std::string device_memory = "0.95";
  std::string pinned_memory = "1GiB";
  std::string max_message_bytes = "64MiB";
  std::string stream_timeout = "30s";
  std::string drain_timeout = "10s";
  std::string idle_memory = "30s";
  std::string checkpoint_interval = "0";
  std::string device = "cpu";
  std::string tls_client_auth = "require";
  std::string status_page = "auto";
  std::string slow_call = "0";
  std::string cluster_lease = "10s";
  std::string cluster_lost_after = "0s";
  std::string cluster_split_bytes = "0";
};

void AddNetworkFlags(CLI::App* app, ServerOptions* server, FlagTexts* texts) {
  app->add_option("--listen", server->listen,
                  "host:port, [address]:port or unix:/path; port 0 takes a "
                  "free one")
      ->capture_default_str();
  app->add_option("--metrics_listen", server->metrics_listen,
                  "address:port of /metrics, /healthz, /readyz and the status "
                  "page, /; empty is off")
      ->capture_default_str();
  app->add_flag("--metrics_tls", server->metrics_tls,
                "Encrypt that port too, by --tls_cert and --tls_key; with a "
                "--tls_client_ca, only /healthz and /readyz answer clients "
                "without a certificate");
  app->add_option("--status_page", texts->status_page,
                  "Whether that port shows, at /, what the server holds, to "
                  "all who reach it: on, off, or auto (on if there is neither "
                  "a --policy_file nor a --tls_client_ca, and --listen is no "
                  "Unix socket)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app->add_flag("--insecure", server->insecure,
                "Listen, for calls and for metrics, on addresses that other "
                "machines can reach, in plain text or for everybody");
}

void AddSecurityFlags(CLI::App* app, ServerOptions* server, FlagTexts* texts) {
  app->add_option("--tls_cert", server->tls.cert,
                  "PEM file of the server's certificate and its chain; a "
                  "replaced file counts within 10s");
  app->add_option("--tls_key", server->tls.key, "PEM file of its key");
  app->add_option("--tls_client_ca", server->tls.client_ca,
                  "PEM file of who signs the certificates of clients; without "
                  "it they need none");
  app->add_option("--tls_client_auth", texts->tls_client_auth,
                  "Whether a client must have a certificate, if there is a "
                  "--tls_client_ca")
      ->capture_default_str()
      ->check(CLI::IsMember({"require", "optional"}));
  app->add_option("--policy_file", server->policy_file,
                  "Who may do what, as docs/security.md describes it; SIGHUP "
                  "reads it again (default: everybody may do everything)");
  app->add_option("--token_file", server->token_file,
                  "Names and SHA-256 digests of bearer tokens, a line each; "
                  "SIGHUP reads it again");
}

void AddLimitFlags(CLI::App* app, ServerOptions* server, FlagTexts* texts) {
  app->add_option("--budget", texts->budget,
                  "Bytes of the host's memory that tensors and keys may take, "
                  "such as 8GiB (default: 80% of it)");
  app->add_option("--device_budget", texts->device_budget,
                  "Bytes of the GPU's memory that tensors may take (default: "
                  "90% of what the server has of it)");
  app->add_option("--device_memory", texts->device_memory,
                  "What the server takes of the GPU's memory: a share of what "
                  "is free, or bytes, such as 64GiB")
      ->capture_default_str();
  app->add_option("--pinned_memory", texts->pinned_memory,
                  "With a GPU: bytes of the host's memory that may be "
                  "page-locked for tensors that come and go")
      ->capture_default_str();
  app->add_option("--nccl", server->nccl,
                  "With a GPU: the library of NCCL by which mirrored sums go "
                  "from GPU to GPU, where all servers have the same; off, or "
                  "auto (libnccl.so.2 in a cluster without TLS: NCCL does not "
                  "encrypt)")
      ->capture_default_str();
  app->add_option("--max_message_bytes", texts->max_message_bytes,
                  "Bytes of one message, such as 64MiB")
      ->capture_default_str();
  app->add_option("--max_streams", server->max_streams,
                  "Calls under way on one connection")
      ->capture_default_str();
  app->add_option("--stream_timeout", texts->stream_timeout,
                  "How long the peer of a stream may stand still; it has 120 "
                  "times as long for all of a large payload")
      ->capture_default_str();
}

void AddProcessFlags(CLI::App* app, ServerFlags* flags, FlagTexts* texts) {
  app->add_option("--threads", flags->server.num_threads,
                  "Threads for updates; 0 is one per CPU that the server may "
                  "run on")
      ->capture_default_str();
  app->add_option(
         "--device", texts->device,
         "Where tensors are kept: cpu, cuda:N (a GPU; a host with several runs "
         "a server for each), or auto (cuda:0 if it can be used, else cpu)")
      ->capture_default_str();
  app->add_option("--drain_timeout", texts->drain_timeout,
                  "How long calls may take to end after SIGTERM")
      ->capture_default_str();
  app->add_option("--idle_memory", texts->idle_memory,
                  "Memory that was free for so long, at most twice as long, "
                  "goes back to the system")
      ->capture_default_str();
  app->add_option("--slow_call", texts->slow_call,
                  "Log calls that take so long, such as 1s, and what they "
                  "waited for; 0 is none")
      ->capture_default_str();
  app->add_option("--log_level", flags->log_level, "How much to log")
      ->capture_default_str()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app->add_option("--log_format", flags->log_format, "How a line of it looks")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}));
  app->add_flag("--connection_guard,!--no-connection_guard",
                flags->connection_guard,
                "End connections in plain text that send what no client would, "
                "before gRPC reads it (default: on)");
}

// Returns whether all who reach the port for calls may read everything.
bool IsForEverybody(const ServerOptions& server) {
  return server.policy_file.empty() && server.tls.client_ca.empty() &&
         !absl::StartsWith(server.listen, "unix:");
}

// ConfigFlags say what becomes of the flags, instead of a server.
struct ConfigFlags {
  bool print = false;
  bool check = false;
};

void AddConfigFlags(CLI::App* app, ConfigFlags* config) {
  app->set_config("--config", "",
                  "A file of lines \"flag = value\" (TOML); flags of the "
                  "command line come first, and environment variables last");
  app->allow_config_extras(CLI::config_extras_mode::error);
  app->add_flag("--print_config", config->print,
                "Print all flags and their values as such a file, and end")
      ->configurable(false);
  app->add_flag("--check_config", config->check,
                "End with status 0 if all flags, and the files of TLS and "
                "access that they name, are right, without serving")
      ->configurable(false);
}

void AddCheckpointFlags(CLI::App* app, ServerOptions* server,
                        FlagTexts* texts) {
  app->add_option("--checkpoint_dir", server->checkpoint_dir,
                  "Directory of this server's checkpoints: the last one is "
                  "restored at the start, and one is written after SIGTERM "
                  "(default: none, state is gone when the server ends)");
  app->add_option("--checkpoint_interval", texts->checkpoint_interval,
                  "How often to write a checkpoint, such as 10m; 0 is only "
                  "when asked")
      ->capture_default_str();
  app->add_option("--checkpoint_keep", server->checkpoint_keep,
                  "How many of the checkpoints stay that the server writes by "
                  "itself")
      ->capture_default_str();
  app->add_option("--checkpoint_full_every", server->checkpoint_full_every,
                  "Every how many checkpoints all is written; the others "
                  "write what has changed, and share files of the rest with "
                  "the one before, so that damage to such a file damages all "
                  "that share it")
      ->capture_default_str();
  app->add_flag("--checkpoint_fallback", server->checkpoint_fallback,
                "Start from an older checkpoint if the last one is damaged, "
                "rather than not to start");
}

// `cluster` is the server's if there is an etcd.
void AddPlacementFlags(CLI::App* app, ClusterOptions* cluster,
                       FlagTexts* texts) {
  app->add_option("--cluster_size", cluster->size,
                  "How many servers make the first placement, once they are "
                  "all there")
      ->capture_default_str();
  app->add_option("--cluster_partitions", cluster->num_partitions,
                  "Partitions of the first placement, for good; 0: 1024 to "
                  "65536, at least 64 for each of up to 1024 servers")
      ->capture_default_str();
  app->add_option("--cluster_split_bytes", texts->cluster_split_bytes,
                  "Tensors of more bytes are in slices on all servers, by the "
                  "first placement, for good; 0: none is")
      ->capture_default_str();
  app->add_option("--cluster_weight", cluster->weight,
                  "The server's capacity beside that of the others")
      ->capture_default_str();
}

void AddClusterFlags(CLI::App* app, ClusterOptions* cluster, FlagTexts* texts) {
  app->add_option("--etcd", cluster->etcd,
                  "host:port,... of the etcd by which servers are one store, "
                  "as docs/cluster.md describes it (default: none, the server "
                  "has all keys)")
      ->delimiter(',');
  app->add_option("--cluster", cluster->cluster,
                  "The name of that store at etcd")
      ->capture_default_str();
  app->add_option("--server_name", cluster->server_name,
                  "Unique in the cluster; a server keeps its keys with it");
  app->add_option("--cluster_address", cluster->address,
                  "host:port where clients reach the server (default: where "
                  "it listens)");
  AddPlacementFlags(app, cluster, texts);
  app->add_option("--cluster_tls_ca", cluster->tls_ca,
                  "PEM file of the authorities that may sign the certificates "
                  "of the cluster's servers, for calls between them");
  app->add_option("--cluster_token_file", cluster->token_file,
                  "File of a token by which servers of the cluster prove "
                  "themselves to each other, if not by certificates");
  app->add_option("--cluster_checkpoints", cluster->checkpoints,
                  "Where each server of the cluster has its checkpoints, in a "
                  "directory of its name, which is that of --checkpoint_dir "
                  "where none is said: the others restore from there what a "
                  "server had that is lost");
  app->add_option("--cluster_lost_after", texts->cluster_lost_after,
                  "How long after a server is no longer live the others take "
                  "over what it had, while one that is out of touch with etcd "
                  "for so long answers no calls; 0s: until `tensorkv cluster "
                  "resize --lost` says so")
      ->capture_default_str();
  app->add_option("--cluster_lease", texts->cluster_lease,
                  "How long a server that does not answer counts as live; "
                  "whole seconds, 2s to 10m")
      ->capture_default_str();
}

absl::Status WrongValue(const char* flag, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", message));
}

absl::StatusOr<uint64_t> BytesOf(const char* flag, const std::string& text) {
  absl::StatusOr<uint64_t> bytes = ParseByteSize(text);
  if (!bytes.ok()) return WrongValue(flag, bytes.status().message());
  if (*bytes == 0) return WrongValue(flag, "expected more than 0 bytes");
  return bytes;
}

// A number up to 1 is a share.
absl::Status ReadDeviceMemory(const std::string& text,
                              GpuMemoryOptions* memory) {
  if (absl::SimpleAtod(text, &memory->share) && memory->share > 0 &&
      memory->share <= 1) {
    return absl::OkStatus();
  }
  memory->share = 1;
  ASSIGN_OR_RETURN(memory->bytes, BytesOf("device_memory", text));
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> DurationOf(const char* flag,
                                          const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) &&
      duration >= absl::ZeroDuration() && duration < absl::Hours(24 * 365)) {
    return duration;
  }
  return WrongValue(
      flag, absl::StrCat("expected a time such as 500ms, 10s or 5m, got \"",
                         text, "\""));
}

absl::StatusOr<DeviceChoice> DeviceOf(const char* flag,
                                      const std::string& text) {
  absl::StatusOr<DeviceChoice> device = ParseDeviceChoice(text);
  if (!device.ok()) return WrongValue(flag, device.status().message());
  return device;
}

// Whoever sets one of these without --etcd wants a cluster, and may count on
// checkpoints that nobody would write. Those with defaults are in files that
// --print_config has printed.
absl::Status CheckNoCluster(const ClusterOptions& cluster) {
  for (const auto& [flag, value] :
       {std::pair("server_name", &cluster.server_name),
        {"cluster_address", &cluster.address},
        {"cluster_checkpoints", &cluster.checkpoints},
        {"cluster_tls_ca", &cluster.tls_ca},
        {"cluster_token_file", &cluster.token_file}}) {
    if (value->empty()) continue;
    return WrongValue("etcd",
                      absl::StrCat("expected one, as there is a ", flag));
  }
  if (cluster.size == ClusterOptions().size) return absl::OkStatus();
  return WrongValue("etcd", "expected one, as there is a cluster_size");
}

// Sets the server's cluster if there is an etcd.
absl::Status InterpretCluster(ClusterOptions cluster, const FlagTexts& texts,
                              ServerOptions* server) {
  std::erase(cluster.etcd, "");
  if (cluster.etcd.empty()) return CheckNoCluster(cluster);
  ASSIGN_OR_RETURN(cluster.lease,
                   DurationOf("cluster_lease", texts.cluster_lease));
  ASSIGN_OR_RETURN(cluster.lost_after,
                   DurationOf("cluster_lost_after", texts.cluster_lost_after));
  if (!cluster.checkpoints.empty() && server->checkpoint_dir.empty()) {
    server->checkpoint_dir =
        absl::StrCat(cluster.checkpoints, "/", cluster.server_name);
  }
  const auto split_bytes = ParseByteSize(texts.cluster_split_bytes);
  if (!split_bytes.ok()) {
    return WrongValue("cluster_split_bytes", split_bytes.status().message());
  }
  cluster.split_bytes = *split_bytes;
  server->cluster = std::move(cluster);
  return absl::OkStatus();
}

absl::Status ReadBudgets(const FlagTexts& texts, ServerOptions* server) {
  if (!texts.budget.empty()) {
    ASSIGN_OR_RETURN(server->budget_bytes, BytesOf("budget", texts.budget));
  }
  if (!texts.device_budget.empty()) {
    ASSIGN_OR_RETURN(server->device_budget_bytes,
                     BytesOf("device_budget", texts.device_budget));
    if (server->device.kind == DeviceChoice::Kind::kCpu) {
      return WrongValue("device_budget",
                        "expected a GPU to have it, such as --device=cuda:0");
    }
  }
  RETURN_IF_ERROR(ReadDeviceMemory(texts.device_memory, &server->gpu_memory));
  ASSIGN_OR_RETURN(server->gpu_memory.max_pinned_bytes,
                   BytesOf("pinned_memory", texts.pinned_memory));
  return absl::OkStatus();
}

absl::Status Interpret(const FlagTexts& texts, const ClusterOptions& cluster,
                       ServerFlags* flags) {
  RETURN_IF_ERROR(InterpretCluster(cluster, texts, &flags->server));
  ASSIGN_OR_RETURN(flags->server.device, DeviceOf("device", texts.device));
  flags->server.tls.client_cert_is_optional =
      texts.tls_client_auth == "optional";
  flags->server.status_page =
      texts.status_page == "on" ||
      (texts.status_page == "auto" && IsForEverybody(flags->server));
  RETURN_IF_ERROR(ReadBudgets(texts, &flags->server));
  ASSIGN_OR_RETURN(flags->server.max_message_bytes,
                   BytesOf("max_message_bytes", texts.max_message_bytes));
  ASSIGN_OR_RETURN(flags->server.stream_timeout,
                   DurationOf("stream_timeout", texts.stream_timeout));
  ASSIGN_OR_RETURN(
      flags->server.checkpoint_interval,
      DurationOf("checkpoint_interval", texts.checkpoint_interval));
  ASSIGN_OR_RETURN(flags->server.slow_call,
                   DurationOf("slow_call", texts.slow_call));
  if (flags->server.slow_call == absl::ZeroDuration()) {
    flags->server.slow_call = absl::InfiniteDuration();
  }
  ASSIGN_OR_RETURN(flags->drain_timeout,
                   DurationOf("drain_timeout", texts.drain_timeout));
  ASSIGN_OR_RETURN(flags->idle_memory,
                   DurationOf("idle_memory", texts.idle_memory));
  if (flags->idle_memory < absl::Seconds(1)) {
    return WrongValue("idle_memory", absl::StrCat("expected at least 1s, got ",
                                                  texts.idle_memory));
  }
  const absl::Status checked = CheckServerOptions(flags->server);
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(absl::StrCat("--", checked.message()));
}

// Checks the files as the server reads them at its start.
absl::Status CheckFiles(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckTlsFiles(options.tls));
  RETURN_IF_ERROR(CheckPeerFiles(options));
  return AccessControl({.policy_file = options.policy_file,
                        .token_file = options.token_file})
      .Reload();
}

// "--name=" as "--name" and "": the parser would take the next flag for the
// missing value. Last first, as the parser wants it.
std::vector<std::string> Arguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    absl::string_view argument = argv[i];
    const bool is_empty =
        absl::StartsWith(argument, "--") && absl::ConsumeSuffix(&argument, "=");
    if (is_empty) arguments.emplace_back();
    arguments.emplace_back(argument);
  }
  return arguments;
}

// Names environment variables: "--tls_cert" is TENSORKV_TLS_CERT. Lets the last
// of equal flags count, so that a script's users can override what it says.
void CompleteOptions(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    if (option->get_items_expected_max() == 1) option->take_last();
    if (!option->get_configurable()) continue;
    option->envname(absl::StrCat(
        "TENSORKV_", absl::AsciiStrToUpper(option->get_single_name())));
  }
}

EarlyExit WrongUse(absl::string_view message) {
  std::string line =
      absl::StrCat("tensorkv-server: ", message, " (--help lists the flags)\n");
  std::replace(line.begin(), line.end() - 1, '\n', ' ');
  return {.code = 2, .text = std::move(line)};
}

}  // namespace

std::variant<ServerFlags, EarlyExit> ParseServerFlags(int argc,
                                                      const char* const* argv) {
  ServerFlags flags;
  flags.server.metrics_listen = "127.0.0.1:9464";
  FlagTexts texts;
  CLI::App app("TensorKV: a networked key-value store of tensors",
               "tensorkv-server");
  app.set_version_flag("--version", absl::StrCat("tensorkv-server ", kVersion));
  AddNetworkFlags(&app, &flags.server, &texts);
  AddSecurityFlags(&app, &flags.server, &texts);
  AddLimitFlags(&app, &flags.server, &texts);
  AddCheckpointFlags(&app, &flags.server, &texts);
  AddProcessFlags(&app, &flags, &texts);
  ClusterOptions cluster;
  AddClusterFlags(&app, &cluster, &texts);
  ConfigFlags config;
  AddConfigFlags(&app, &config);
  CompleteOptions(&app);
  try {
    app.parse(Arguments(argc, argv));
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{.text = app.help()};
  } catch (const CLI::CallForVersion& version) {
    return EarlyExit{.text = absl::StrCat(version.what(), "\n")};
  } catch (const CLI::ConfigError& error) {
    return WrongUse(absl::StrCat(
        "--config: ",
        absl::StrReplaceAll(error.what(), {{"INI was not able to parse",
                                            "there is no flag"}})));
  } catch (const CLI::ParseError& error) {
    return WrongUse(error.what());
  }
  const absl::Status status = Interpret(texts, cluster, &flags);
  if (!status.ok()) return WrongUse(status.message());
  if (config.print) return EarlyExit{.text = app.config_to_str(true, true)};
  if (config.check) {
    const absl::Status files = CheckFiles(flags.server);
    if (!files.ok()) return WrongUse(absl::StrCat("--", files.message()));
    return EarlyExit();
  }
  return flags;
}

}  // namespace tensorkv
