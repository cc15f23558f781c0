#include "tests/service/http_get.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tensorkv::testing {
namespace {

// Connected to 127.0.0.1, or -1.
int Connect(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
      0) {
    return fd;
  }
  close(fd);
  return -1;
}

std::string ReadToEnd(int fd) {
  std::string text;
  char buffer[65536];
  ssize_t size = 0;
  while ((size = read(fd, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

// Returns whether a function of GnuTLS is to be called again.
bool IsInterrupted(ssize_t result) {
  return result < 0 && gnutls_error_is_fatal(static_cast<int>(result)) == 0;
}

// Returns what the peer replies; empty if there is no TLS with it.
std::string Exchange(gnutls_session_t session, const std::string& request) {
  int result = 0;
  do {
    result = gnutls_handshake(session);
  } while (IsInterrupted(result));
  std::string text;
  if (result < 0 ||
      gnutls_record_send(session, request.data(), request.size()) < 0) {
    return text;
  }
  char buffer[65536];
  ssize_t size = 0;
  while ((size = gnutls_record_recv(session, buffer, sizeof(buffer))) > 0 ||
         IsInterrupted(size)) {
    if (size > 0) text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

std::string RequestOf(absl::string_view method, absl::string_view path,
                      absl::string_view host) {
  return absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", host,
                      "\r\n\r\n");
}

HttpResponse Parse(const std::string& text) {
  constexpr absl::string_view kVersion = "HTTP/1.1 ";
  const size_t end = text.find("\r\n\r\n");
  HttpResponse response;
  if (!absl::StartsWith(text, kVersion) || end == std::string::npos ||
      !absl::SimpleAtoi(text.substr(kVersion.size(), 3), &response.code)) {
    return {};
  }
  response.headers = text.substr(0, end);
  response.body = text.substr(end + 4);
  return response;
}

}  // namespace

HttpResponse HttpGet(int port, absl::string_view path, absl::string_view method,
                     absl::string_view host) {
  const int fd = Connect(port);
  if (fd < 0) return {};
  const std::string request = RequestOf(method, path, host);
  HttpResponse response;
  if (write(fd, request.data(), request.size()) ==
      static_cast<ssize_t>(request.size())) {
    response = Parse(ReadToEnd(fd));
  }
  close(fd);
  return response;
}

HttpResponse HttpsGet(int port, absl::string_view path, const TlsFiles& files) {
  const int fd = Connect(port);
  if (fd < 0) return {};
  gnutls_certificate_credentials_t credentials = nullptr;
  gnutls_certificate_allocate_credentials(&credentials);
  gnutls_certificate_set_x509_trust_file(credentials, files.ca.c_str(),
                                         GNUTLS_X509_FMT_PEM);
  if (!files.cert.empty()) {
    gnutls_certificate_set_x509_key_file(credentials, files.cert.c_str(),
                                         files.key.c_str(),
                                         GNUTLS_X509_FMT_PEM);
  }
  gnutls_session_t session = nullptr;
  // Also a certificate that the server will refuse is shown to it.
  gnutls_init(&session,
              GNUTLS_CLIENT | GNUTLS_NO_SIGNAL | GNUTLS_FORCE_CLIENT_CERT);
  gnutls_set_default_priority(session);
  gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
  gnutls_session_set_verify_cert(session, "tensorkv.test", 0);
  gnutls_transport_set_int(session, fd);
  const HttpResponse response =
      Parse(Exchange(session, RequestOf("GET", path, "test")));
  gnutls_deinit(session);
  gnutls_certificate_free_credentials(credentials);
  close(fd);
  return response;
}

}  // namespace tensorkv::testing
