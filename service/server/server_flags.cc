#include "service/server/server_flags.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
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
#include "service/server/server_files.h"

namespace tensorkv {
namespace {

// Flags that say something of other flags.
struct FlagTexts {
  std::string status_page = "auto";
  std::string tls_client_auth = "require";
};

// Adds a flag of which `read` understands the text, at first `text`. Where that
// is empty, an empty value is as none.
void AddText(CLI::App* app, const char* name, const std::string& text,
             const std::function<absl::Status(const std::string&)>& read,
             const char* help) {
  const auto set = [=, is_optional = text.empty()](const std::string& given) {
    if (given.empty() && is_optional) return;
    const absl::Status status = read(given);
    if (!status.ok()) {
      throw CLI::ValidationError(name, std::string(status.message()));
    }
  };
  set(text);
  app->add_option_function<std::string>(name, set, help)->default_str(text);
}

void AddBytes(CLI::App* app, const char* name, uint64_t* bytes,
              const std::string& text, const char* help) {
  const auto read = [bytes](const std::string& given) -> absl::Status {
    ASSIGN_OR_RETURN(*bytes, ParseByteSize(given));
    return *bytes > 0
               ? absl::OkStatus()
               : absl::InvalidArgumentError("expected more than 0 bytes");
  };
  AddText(app, name, text, read, help);
}

void AddTime(CLI::App* app, const char* name, absl::Duration* time,
             const std::string& text, const char* help) {
  const auto read = [time](const std::string& given) {
    if (absl::ParseDuration(given, time) && *time >= absl::ZeroDuration() &&
        *time < absl::Hours(24 * 365)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a time such as 500ms, 10s or 5m, got \"", given, "\""));
  };
  AddText(app, name, text, read, help);
}

// Reads what is a share up to 1, and above that bytes.
absl::Status ReadDeviceMemory(const std::string& text,
                              GpuMemoryOptions* memory) {
  if (absl::SimpleAtod(text, &memory->share) && memory->share > 0 &&
      memory->share <= 1) {
    return absl::OkStatus();
  }
  memory->share = 1;
  ASSIGN_OR_RETURN(memory->bytes, ParseByteSize(text));
  return memory->bytes > 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError("expected more than 0 bytes");
}

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
                "machines can reach, in plain text or for everybody, and ask "
                "an etcd there in plain text");
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

void AddLimitFlags(CLI::App* app, ServerOptions* server) {
  AddBytes(app, "--budget", &server->budget_bytes, "",
           "Bytes of the host's memory that tensors and keys may take, "
           "such as 8GiB (default: 80% of it)");
  AddBytes(app, "--max_retained", &server->max_retained_bytes, "",
           "Bytes of the host's memory that checkpoints and moves may keep of "
           "keys that change meanwhile, besides what is free of --budget; one "
           "that needs more fails, no push does (default: 1/16 of --budget)");
  AddBytes(app, "--device_budget", &server->device_budget_bytes, "",
           "Bytes of the GPU's memory that tensors may take (default: "
           "90% of what the server has of it)");
  AddText(
      app, "--device_memory", "0.95",
      [server](const std::string& text) -> absl::Status {
        return ReadDeviceMemory(text, &server->gpu_memory);
      },
      "What the server takes of the GPU's memory: a share of what "
      "is free, or bytes, such as 64GiB");
  AddBytes(app, "--pinned_memory", &server->gpu_memory.max_pinned_bytes, "1GiB",
           "With a GPU: bytes of the host's memory that may be "
           "page-locked for tensors that come and go");
  app->add_option("--nccl", server->nccl,
                  "With a GPU: the library of NCCL by which mirrored sums go "
                  "from GPU to GPU, where all servers have the same; off, or "
                  "auto (libnccl.so.2 in a cluster without TLS: NCCL does not "
                  "encrypt)")
      ->capture_default_str();
  AddBytes(app, "--max_message_bytes", &server->max_message_bytes, "64MiB",
           "Bytes of one message, such as 64MiB");
  app->add_option("--max_streams", server->max_streams,
                  "Calls under way on one connection")
      ->capture_default_str();
  app->add_option("--max_uploads", server->max_uploads,
                  "Streams that bring tensors at once; others wait before "
                  "memory is taken for them; 0: any number")
      ->capture_default_str();
  AddTime(app, "--stream_timeout", &server->stream_timeout, "30s",
          "How long the peer of a stream may stand still; it has 120 "
          "times as long for all of a large payload");
}

void AddProcessFlags(CLI::App* app, ServerFlags* flags) {
  app->add_option("--threads", flags->server.num_threads,
                  "Threads for updates; 0 is one per CPU that the server may "
                  "run on")
      ->capture_default_str();
  AddText(
      app, "--device", "cpu",
      [flags](const std::string& text) -> absl::Status {
        ASSIGN_OR_RETURN(flags->server.device, ParseDeviceChoice(text));
        return absl::OkStatus();
      },
      "Where tensors are kept: cpu, cuda:N (a GPU; a host with several runs "
      "a server for each), or auto (cuda:0 if it can be used, else cpu)");
  AddTime(app, "--drain_timeout", &flags->drain_timeout, "10s",
          "How long calls may take to end after SIGTERM");
  AddTime(app, "--idle_memory", &flags->idle_memory, "30s",
          "Memory that was free for so long, at most twice as long, "
          "goes back to the system");
  AddTime(app, "--slow_call", &flags->server.slow_call, "0",
          "Log calls that take so long, such as 1s, and what they "
          "waited for; 0 is none");
  app->add_option("--log_level", flags->log_level, "How much to log")
      ->capture_default_str()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app->add_option("--log_format", flags->log_format, "How a line of it looks")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}));
  app->add_flag("--connection_guard,!--no_connection_guard",
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

void AddCheckpointFlags(CLI::App* app, ServerOptions* server) {
  app->add_option("--checkpoint_dir", server->checkpoint_dir,
                  "Directory of this server's checkpoints: the last one is "
                  "restored at the start, and one is written after SIGTERM "
                  "(default: none, state is gone when the server ends)");
  AddTime(app, "--checkpoint_interval", &server->checkpoint_interval, "0",
          "How often to write a checkpoint, such as 10m; 0 is only "
          "when asked");
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
void AddPlacementFlags(CLI::App* app, ClusterOptions* cluster) {
  app->add_option("--cluster_size", cluster->size,
                  "How many servers make the first placement, once they are "
                  "all there")
      ->capture_default_str();
  app->add_option("--cluster_partitions", cluster->num_partitions,
                  "Partitions of the first placement, for good; 0: 1024 to "
                  "65536, at least 64 for each of up to 1024 servers")
      ->capture_default_str();
  AddText(
      app, "--cluster_split_bytes", "0",
      [cluster](const std::string& text) -> absl::Status {
        ASSIGN_OR_RETURN(cluster->split_bytes, ParseByteSize(text));
        return absl::OkStatus();
      },
      "Tensors of more bytes are in slices on all servers, by the "
      "first placement, for good; 0: none is");
  app->add_option("--cluster_weight", cluster->weight,
                  "The server's capacity beside that of the others")
      ->capture_default_str();
}

void AddEtcdFlags(CLI::App* app, ClusterOptions* cluster) {
  app->add_option("--etcd", cluster->etcd,
                  "host:port,... of the etcd by which servers are one store, "
                  "as docs/cluster.md describes it; https://host:port,... is "
                  "asked over TLS (default: none, the server has all keys)")
      ->delimiter(',');
  app->add_option("--etcd_tls_ca", cluster->etcd_tls_ca,
                  "PEM file of the authorities that may sign the certificates "
                  "of etcd, which is asked over TLS then (default: those of "
                  "the system)");
  app->add_option("--etcd_tls_cert", cluster->etcd_tls_cert,
                  "PEM file of the certificate that the server shows to etcd, "
                  "and its chain");
  app->add_option("--etcd_tls_key", cluster->etcd_tls_key,
                  "PEM file of its key");
  app->add_option("--etcd_user", cluster->etcd_user,
                  "User of etcd that the server is, over TLS");
  app->add_option("--etcd_password_file", cluster->etcd_password_file,
                  "File of that user's password");
}

void AddClusterFlags(CLI::App* app, ClusterOptions* cluster) {
  AddEtcdFlags(app, cluster);
  app->add_option("--cluster", cluster->cluster,
                  "The name of that store at etcd")
      ->capture_default_str();
  app->add_option("--server_name", cluster->server_name,
                  "Unique in the cluster; a server keeps its keys with it");
  app->add_option("--cluster_address", cluster->address,
                  "host:port where clients reach the server (default: where "
                  "it listens)");
  AddPlacementFlags(app, cluster);
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
  AddTime(app, "--cluster_lost_after", &cluster->lost_after, "0s",
          "How long after a server is no longer live the others take "
          "over what it had, while one that is out of touch with etcd "
          "for so long answers no calls; 0s: until `tensorkv cluster "
          "resize --lost` says so");
  AddTime(app, "--cluster_lease", &cluster->lease, "10s",
          "How long a server that does not answer counts as live; "
          "whole seconds, 2s to 10m");
}

absl::Status WrongValue(const char* flag, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", message));
}

// Whoever sets one of these without --etcd wants a cluster, and may count on
// checkpoints that nobody would write. Those with defaults are in files that
// --print_config has printed.
absl::Status CheckNoCluster(const ClusterOptions& cluster) {
  for (const auto& [flag, value] :
       {std::pair("server_name", &cluster.server_name),
        {"cluster_address", &cluster.address},
        {"cluster_checkpoints", &cluster.checkpoints},
        {"etcd_tls_ca", &cluster.etcd_tls_ca},
        {"etcd_tls_cert", &cluster.etcd_tls_cert},
        {"etcd_tls_key", &cluster.etcd_tls_key},
        {"etcd_user", &cluster.etcd_user},
        {"etcd_password_file", &cluster.etcd_password_file},
        {"cluster_tls_ca", &cluster.tls_ca},
        {"cluster_token_file", &cluster.token_file}}) {
    if (value->empty()) continue;
    return WrongValue("etcd",
                      absl::StrCat("expected one, as there is a ", flag));
  }
  if (cluster.size == ClusterOptions().size) return absl::OkStatus();
  return WrongValue("etcd", "expected one, as there is a cluster_size");
}

// Takes the schemes off the addresses of etcd, and sets whether they are asked
// over TLS: all are if one of them says so.
absl::Status InterpretEtcd(ClusterOptions* cluster) {
  bool has_plain = false;
  cluster->etcd_tls =
      !cluster->etcd_tls_ca.empty() || !cluster->etcd_tls_cert.empty();
  for (std::string& address : cluster->etcd) {
    absl::string_view rest = address;
    if (absl::ConsumePrefix(&rest, "https://")) cluster->etcd_tls = true;
    if (absl::ConsumePrefix(&rest, "http://")) has_plain = true;
    address = std::string(rest);
  }
  if (!has_plain || !cluster->etcd_tls) return absl::OkStatus();
  return WrongValue("etcd",
                    "expected https:// alone, as etcd is to be asked over TLS, "
                    "got http:// too");
}

// Sets the server's cluster if there is an etcd.
absl::Status InterpretCluster(ClusterOptions cluster, ServerOptions* server) {
  std::erase(cluster.etcd, "");
  if (cluster.etcd.empty()) return CheckNoCluster(cluster);
  RETURN_IF_ERROR(InterpretEtcd(&cluster));
  if (!cluster.checkpoints.empty() && server->checkpoint_dir.empty()) {
    server->checkpoint_dir =
        absl::StrCat(cluster.checkpoints, "/", cluster.server_name);
  }
  server->cluster = std::move(cluster);
  return absl::OkStatus();
}

absl::Status Interpret(const FlagTexts& texts, ClusterOptions cluster,
                       ServerFlags* flags) {
  ServerOptions& server = flags->server;
  RETURN_IF_ERROR(InterpretCluster(std::move(cluster), &server));
  server.tls.client_cert_is_optional = texts.tls_client_auth == "optional";
  server.status_page = texts.status_page == "on" ||
                       (texts.status_page == "auto" && IsForEverybody(server));
  if (server.device_budget_bytes > 0 &&
      server.device.kind == DeviceChoice::Kind::kCpu) {
    return WrongValue("device_budget",
                      "expected a GPU to have it, such as --device=cuda:0");
  }
  if (server.slow_call == absl::ZeroDuration()) {
    server.slow_call = absl::InfiniteDuration();
  }
  if (flags->idle_memory < absl::Seconds(1)) {
    return WrongValue("idle_memory",
                      absl::StrCat("expected at least 1s, got ",
                                   absl::FormatDuration(flags->idle_memory)));
  }
  const absl::Status checked = CheckServerOptions(server);
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(absl::StrCat("--", checked.message()));
}

// Checks the files as the server reads them at its start.
absl::Status CheckFiles(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckTlsFiles(options.tls));
  RETURN_IF_ERROR(CheckChannelFiles(options));
  return AccessControl({.policy_file = options.policy_file,
                        .token_file = options.token_file})
      .Reload();
}

// Returns the arguments, the last first, as the parser wants them, and
// "--name=" as "--name" and "": it would take the next flag for the missing
// value.
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
  AddLimitFlags(&app, &flags.server);
  AddCheckpointFlags(&app, &flags.server);
  AddProcessFlags(&app, &flags);
  ClusterOptions cluster;
  AddClusterFlags(&app, &cluster);
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
  const absl::Status status = Interpret(texts, std::move(cluster), &flags);
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
