// The smallest HTTP client that a test can do with.

#ifndef TENSORKV_TESTS_INTEGRATION_HTTP_GET_H_
#define TENSORKV_TESTS_INTEGRATION_HTTP_GET_H_

#include <string>

namespace tensorkv::testing {

struct HttpReply {
  int code = 0;  // 0 if there was no reply
  std::string body;
};

// GETs `path` from a server on this machine's 127.0.0.1.
HttpReply HttpGet(int port, const std::string& path);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_HTTP_GET_H_
