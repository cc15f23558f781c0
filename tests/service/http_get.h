// The least HTTP client that a test needs.

#ifndef TENSORKV_TESTS_SERVICE_HTTP_GET_H_
#define TENSORKV_TESTS_SERVICE_HTTP_GET_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv::testing {

struct HttpResponse {
  int code = 0;  // 0: no server, or no HTTP
  std::string headers;
  std::string body;
};

// GETs `path` from `port` of 127.0.0.1. `method` and `host`
// are for other requests.
HttpResponse HttpGet(int port, absl::string_view path,
                     absl::string_view method = "GET",
                     absl::string_view host = "test");

// PEM files of a client; without a certificate of its own `cert` and `key` are
// empty.
struct TlsFiles {
  std::string ca;
  std::string cert;
  std::string key;
};

// Gets the page by TLS from a server that `ca` vouches for as "tensorkv.test".
HttpResponse HttpsGet(int port, absl::string_view path, const TlsFiles& files);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_HTTP_GET_H_
