#include "tests/service/http_get.h"

#include <arpa/inet.h>
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
  const std::string request =
      absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n");
  HttpResponse response;
  if (write(fd, request.data(), request.size()) ==
      static_cast<ssize_t>(request.size())) {
    response = Parse(ReadToEnd(fd));
  }
  close(fd);
  return response;
}

}  // namespace tensorkv::testing
