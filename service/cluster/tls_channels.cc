#include "service/cluster/tls_channels.h"

#include <algorithm>

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
constexpr int kInitialBackoffMs = 100;
constexpr int kMaxBackoffMs = 1'000;
constexpr int kConnectTimeoutMs = 5'000;
constexpr int kKeepaliveTimeMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;

std::shared_ptr<grpc::Channel> OpenChannel(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  // Connections made with other credentials are not used.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kInitialBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

absl::Status TlsChannels::Load(const std::vector<FileText>& texts) {
  if (texts.empty()) return absl::OkStatus();
  const FileText& certificate = texts[0];
  const FileText& key = texts[1];
  const FileText& authorities = texts[2];
  const FileText& file = texts[3];
  const bool shows_one = !certificate.path.empty();
  if (shows_one) RETURN_IF_ERROR(CheckCertificate(certificate, key));
  // gRPC would trust those of the system instead.
  if (!authorities.path.empty()) RETURN_IF_ERROR(CheckAuthorities(authorities));
  const std::string secret(absl::StripAsciiWhitespace(file.text));
  // A header of a call takes no other characters.
  const bool is_usable =
      !secret.empty() &&
      (!prove_ || std::ranges::all_of(secret, absl::ascii_isgraph));
  if (!file.path.empty() && !is_usable) {
    // The text itself is a secret, or part of one.
    return absl::InvalidArgumentError(
        absl::StrCat(file.option, ": expected ",
                     prove_ ? "one token" : "a password", " in ", file.path));
  }
  MutexLock lock(&mutex_);
  if (credentials_ != nullptr && shows_one) {
    RETURN_IF_ERROR(CheckDates(certificate, absl::Now()));
  }
  credentials_ = grpc::SslCredentials({.pem_root_certs = authorities.text,
                                       .pem_private_key = key.text,
                                       .pem_cert_chain = certificate.text});
  if (prove_ && !secret.empty()) {
    credentials_ =
        grpc::CompositeChannelCredentials(credentials_, prove_(secret));
  }
  secret_ = secret;
  channels_.clear();
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> TlsChannels::ChannelTo(
    const std::string& address) {
  MutexLock lock(&mutex_);
  std::weak_ptr<grpc::Channel>& known = channels_[address];
  std::shared_ptr<grpc::Channel> channel = known.lock();
  if (channel == nullptr) {
    channel =
        OpenChannel(address, files_.empty() ? grpc::InsecureChannelCredentials()
                                            : credentials_);
    known = channel;
  }
  return channel;
}

std::string TlsChannels::secret() const {
  MutexLock lock(&mutex_);
  return secret_;
}

}  // namespace tensorkv
