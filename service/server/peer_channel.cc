#include "service/server/peer_channel.h"

#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/security/credentials.h"

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

std::shared_ptr<grpc::Channel> PeerChannel(const ServerOptions& options,
                                           const std::string& address) {
  if (!options.tls.is_on()) {
    return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  }
  auto credentials =
      grpc::SslCredentials({.pem_root_certs = TextOf(options.cluster->tls_ca),
                            .pem_private_key = TextOf(options.tls.key),
                            .pem_cert_chain = TextOf(options.tls.cert)});
  if (!options.cluster->token_file.empty()) {
    const std::string text = TextOf(options.cluster->token_file);
    credentials = grpc::CompositeChannelCredentials(
        credentials,
        grpc::MetadataCredentialsFromPlugin(std::make_unique<BearerToken>(
            std::string(absl::StripAsciiWhitespace(text)))));
  }
  return grpc::CreateChannel(address, credentials);
}

}  // namespace tensorkv
