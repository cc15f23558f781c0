#include "service/server/peer_channel.h"

#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "grpcpp/security/credentials.h"
#include "service/security/server_tls.h"

namespace tensorkv {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Sends a bearer token with each call.
class BearerToken final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit BearerToken(std::string token) : token_(std::move(token)) {}

  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<std::string, std::string>* metadata) override {
    metadata->emplace("authorization", absl::StrCat("Bearer ", token_));
    return grpc::Status::OK;
  }

 private:
  const std::string token_;
};

}  // namespace

absl::Status CheckPeerFiles(const ServerOptions& options) {
  if (!options.cluster) return absl::OkStatus();
  const ClusterOptions& cluster = *options.cluster;
  if (!cluster.tls_ca.empty()) {
    RETURN_IF_ERROR(CheckAuthorities("cluster_tls_ca", cluster.tls_ca));
  }
  if (cluster.token_file.empty()) return absl::OkStatus();
  return ReadTextFile("cluster_token_file", cluster.token_file).status();
}

std::shared_ptr<grpc::Channel> PeerChannel(const ServerOptions& options,
                                           const std::string& address) {
  if (!options.tls.is_on()) {
    return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  }
  const ClusterOptions& cluster = *options.cluster;
  const std::string authorities = TextOf(cluster.tls_ca);
  // gRPC would trust those of the system instead.
  if (!cluster.tls_ca.empty() && authorities.empty()) {
    return grpc::CreateChannel(address, nullptr);
  }
  auto credentials =
      grpc::SslCredentials({.pem_root_certs = authorities,
                            .pem_private_key = TextOf(options.tls.key),
                            .pem_cert_chain = TextOf(options.tls.cert)});
  if (!cluster.token_file.empty()) {
    const std::string text = TextOf(cluster.token_file);
    credentials = grpc::CompositeChannelCredentials(
        credentials,
        grpc::MetadataCredentialsFromPlugin(std::make_unique<BearerToken>(
            std::string(absl::StripAsciiWhitespace(text)))));
  }
  return grpc::CreateChannel(address, credentials);
}

}  // namespace tensorkv
