// Asks the port for metrics by TLS.

#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "tests/service/http_get.h"
#include "tests/service/security/secure_server.h"

namespace tensorkv {
namespace secure_server_test {

using testing::HttpGet;
using testing::HttpsGet;
using testing::TlsFiles;

class MetricsTlsTest : public SecureServerTest {
 protected:
  std::unique_ptr<Server> Start(ServerOptions options) {
    options.metrics_listen = "127.0.0.1:0";
    options.metrics_tls = true;
    return Server::Create(options).value();
  }
  TlsFiles Nobody() const { return {.ca = Path("ca.crt")}; }
  // Writes the identity to files of that name.
  TlsFiles Client(const std::string& name, const Identity& identity) const {
    Install(identity, name);
    return {.ca = Path("ca.crt"),
            .cert = Path(name + ".crt"),
            .key = Path(name + ".key")};
  }
  // Returns 0 if there is no connection.
  static int Code(const Server& server, const char* path,
                  const TlsFiles& files) {
    return HttpsGet(server.metrics_port(), path, files).code;
  }
};

TEST_F(MetricsTlsTest, ProbesAreForAllAndPagesForThoseWithACertificate) {
  const auto server = Start(WithClientCertificates());
  struct Row {
    TlsFiles files;
    int probe;
    int page;
  };
  for (const Row& row : {
           Row{Client("good", authority_.Issue("c", "")), 200, 200},
           {Nobody(), 200, 403},
           {Client("stranger", stranger_.Issue("c", "")), 0, 0},
           {Client("expired", authority_.Issue("c", "", true)), 0, 0},
       }) {
    SCOPED_TRACE(row.files.cert);
    EXPECT_EQ(Code(*server, "/healthz", row.files), row.probe);
    EXPECT_EQ(Code(*server, "/readyz", row.files), row.probe);
    EXPECT_EQ(Code(*server, "/metrics", row.files), row.page);
  }
  EXPECT_EQ(HttpGet(server->metrics_port(), "/healthz").code, 0);
}

TEST_F(MetricsTlsTest, PagesAreForAllWhereNobodyNeedsACertificate) {
  ServerOptions optional = WithClientCertificates();
  optional.tls.client_cert_is_optional = true;

  for (const ServerOptions& options : {Options(), optional}) {
    EXPECT_EQ(Code(*Start(options), "/metrics", Nobody()), 200);
  }
}

TEST_F(MetricsTlsTest, FollowsTheFiles) {
  const auto server = Start(WithClientCertificates());
  const TlsFiles client = Client("client", authority_.Issue("c", ""));
  ASSERT_EQ(Code(*server, "/metrics", client), 200);

  Install(stranger_.Issue("server", kServerNames), "server");
  while (Code(*server, "/metrics", client) == 200) std::this_thread::yield();
  Write("stranger.crt", stranger_.certificate());
  const TlsFiles next = {Path("stranger.crt"), client.cert, client.key};
  EXPECT_EQ(Code(*server, "/metrics", next), 200);

  Write("ca.crt", stranger_.certificate());
  while (Code(*server, "/metrics", next) == 200) std::this_thread::yield();
  Install(stranger_.Issue("c", ""), "client");
  EXPECT_EQ(Code(*server, "/metrics", next), 200);
}

}  // namespace secure_server_test
}  // namespace tensorkv
