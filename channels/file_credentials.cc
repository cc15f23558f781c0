#include "channels/file_credentials.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/pem.h"
#include "base/status_macros.h"

namespace tensorkv {

FileCredentials::FileCredentials(Options options)
    : options_(std::move(options)) {
  if (options_.files.empty()) current_ = grpc::InsecureChannelCredentials();
}

absl::Status FileCredentials::Load(const std::vector<FileText>& texts) {
  if (texts.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckTls(
      {.certificate = texts[0], .key = texts[1], .authorities = texts[2]},
      /*is_first=*/current() == nullptr));
  const std::string secret(absl::StripAsciiWhitespace(texts[3].text));
  RETURN_IF_ERROR(CheckSecret(texts[3], secret));
  auto made = MadeOf(texts, secret);
  MutexLock lock(&mutex_);
  current_ = std::move(made);
  secret_ = secret;
  return absl::OkStatus();
}

absl::Status FileCredentials::Read() {
  ASSIGN_OR_RETURN(const std::vector<FileText> texts, ReadFiles(files()));
  return Load(texts);
}

absl::Status FileCredentials::CheckSecret(const FileText& file,
                                          const std::string& secret) const {
  const bool is_token = options_.secret == Secret::kToken;
  // A header of a call takes no other characters.
  const bool is_usable =
      !secret.empty() &&
      (!is_token || std::ranges::all_of(secret, absl::ascii_isgraph));
  if (file.path.empty() || is_usable) return absl::OkStatus();
  // The text itself is a secret, or part of one.
  return absl::InvalidArgumentError(
      absl::StrCat(file.option, ": expected ",
                   is_token ? "one token" : "a password", " in ", file.path));
}

// gRPC's own watcher of files ends the process when one is empty, so it gets
// texts. On a Unix socket it gets plain text that it knows to stay on this
// machine.
std::shared_ptr<grpc::ChannelCredentials> FileCredentials::MadeOf(
    const std::vector<FileText>& texts, const std::string& secret) const {
  auto connection =
      options_.transport == Transport::kUnixSocket
          ? grpc::experimental::LocalCredentials(UDS)
          : grpc::SslCredentials({.pem_root_certs = texts[2].text,
                                  .pem_private_key = texts[1].text,
                                  .pem_cert_chain = texts[0].text});
  if (options_.secret == Secret::kPassword || secret.empty()) return connection;
  return grpc::CompositeChannelCredentials(
      connection, grpc::AccessTokenCredentials(secret));
}

std::shared_ptr<grpc::ChannelCredentials> FileCredentials::current() const {
  MutexLock lock(&mutex_);
  return current_;
}

std::string FileCredentials::secret() const {
  MutexLock lock(&mutex_);
  return secret_;
}

}  // namespace tensorkv
