#include "service/server/peer_channels.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/pem.h"
#include "base/status_macros.h"
#include "grpcpp/security/credentials.h"

namespace tensorkv {
namespace {

// Pace reconnecting as clients do: a server that comes back is found within a
// second, and one whose machine is gone is noticed.
constexpr int kPeerInitialBackoffMs = 100;
constexpr int kPeerMaxBackoffMs = 1'000;
constexpr int kPeerConnectTimeoutMs = 5'000;
constexpr int kPeerKeepaliveTimeMs = 20'000;
constexpr int kPeerKeepaliveTimeoutMs = 10'000;

std::shared_ptr<grpc::Channel> Open(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  // Connections made with other credentials are not used.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   kPeerInitialBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kPeerMaxBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kPeerConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPeerKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPeerKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

// Sends a bearer token with each call.
class BearerToken final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit BearerToken(std::string token) : token_(std::move(token)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<std::string, std::string>* metadata) override {
    metadata->emplace("authorization", absl::StrCat("Bearer ", token_));
    return grpc::Status::OK;
  }

 private:
  const std::string token_;
};

std::vector<WatchedFile> FilesOf(const ServerOptions& options) {
  return {{"tls_cert", options.tls.cert},
          {"tls_key", options.tls.key},
          {"cluster_tls_ca", options.cluster->tls_ca},
          {"cluster_token_file", options.cluster->token_file}};
}

}  // namespace

absl::Status CheckPeerFiles(const ServerOptions& options) {
  if (!options.cluster) return absl::OkStatus();
  const ClusterOptions& cluster = *options.cluster;
  ASSIGN_OR_RETURN(const std::vector<FileText> texts,
                   ReadFiles({{"cluster_tls_ca", cluster.tls_ca},
                              {"cluster_token_file", cluster.token_file}}));
  if (cluster.tls_ca.empty()) return absl::OkStatus();
  return CheckAuthorities(texts[0]);
}

std::vector<WatchedFile> PeerChannels::files() const {
  return is_plain() ? std::vector<WatchedFile>() : FilesOf(options_);
}

absl::Status PeerChannels::Load(const std::vector<FileText>& texts) {
  if (texts.empty()) return absl::OkStatus();
  const FileText& certificate = texts[0];
  const FileText& authorities = texts[2];
  const FileText& token = texts[3];
  RETURN_IF_ERROR(CheckCertificate(certificate, texts[1]));
  // gRPC would trust those of the system instead.
  if (!authorities.path.empty()) RETURN_IF_ERROR(CheckAuthorities(authorities));
  const absl::string_view bearer = absl::StripAsciiWhitespace(token.text);
  if (!token.path.empty() && bearer.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(token.option, ": expected a token in ", token.path));
  }
  MutexLock lock(&mutex_);
  if (credentials_ != nullptr) {
    RETURN_IF_ERROR(CheckDates(certificate, absl::Now()));
  }
  credentials_ = grpc::SslCredentials({.pem_root_certs = authorities.text,
                                       .pem_private_key = texts[1].text,
                                       .pem_cert_chain = certificate.text});
  if (!bearer.empty()) {
    credentials_ = grpc::CompositeChannelCredentials(
        credentials_, grpc::MetadataCredentialsFromPlugin(
                          std::make_unique<BearerToken>(std::string(bearer))));
  }
  channels_.clear();
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> PeerChannels::ChannelTo(
    const std::string& address) {
  MutexLock lock(&mutex_);
  std::weak_ptr<grpc::Channel>& known = channels_[address];
  std::shared_ptr<grpc::Channel> channel = known.lock();
  if (channel == nullptr) {
    channel = Open(address, is_plain() ? grpc::InsecureChannelCredentials()
                                       : credentials_);
    known = channel;
  }
  return channel;
}

}  // namespace tensorkv
