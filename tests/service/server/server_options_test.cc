#include "service/server/server_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::StatusIs;

TEST(ServerOptionsTest, DefaultsAreFineAndLocal) {
  EXPECT_OK(CheckServerOptions(ServerOptions()));
}

TEST(ServerOptionsTest, RemoteAddressNeedsConsent) {
  ServerOptions options = {.listen = "0.0.0.0:7363"};

  EXPECT_THAT(
      CheckServerOptions(options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("listen: 0.0.0.0:7363 can be reached"),
                     HasSubstr("--tls_cert"), HasSubstr("--insecure"))));

  options.insecure = true;
  EXPECT_OK(CheckServerOptions(options));
}

TEST(ServerOptionsTest, EncryptedRemoteAddressNeedsAPolicy) {
  ServerOptions options = {.listen = "0.0.0.0:7363",
                           .tls = {.cert = "c", .key = "k", .client_ca = "ca"}};
  EXPECT_THAT(CheckServerOptions(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("give --policy_file")));

  options.policy_file = "p";
  EXPECT_OK(CheckServerOptions(options));
}

TEST(ServerOptionsTest, RemoteMetricsNeedTlsAndCertificatesOfClients) {
  const auto is_taken = [](bool metrics_tls, const TlsOptions& tls) {
    return CheckServerOptions({.tls = tls,
                               .metrics_listen = "0.0.0.0:9464",
                               .metrics_tls = metrics_tls})
        .ok();
  };

  EXPECT_TRUE(is_taken(true, {"c", "k", "ca"}));
  EXPECT_FALSE(is_taken(false, {"c", "k", "ca"}));
  EXPECT_FALSE(is_taken(true, {"c", "k"}));
  EXPECT_FALSE(is_taken(true, {"c", "k", "ca", true}));
}

TEST(ServerOptionsTest, ServerOfAClusterNeedsAnAddressOfItsOwn) {
  ServerOptions options = {.listen = "0.0.0.0:7363", .insecure = true};
  options.cluster = {.etcd = {"e:1"}, .server_name = "s"};
  EXPECT_THAT(CheckServerOptions(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("cluster_address: expected one")));

  options.cluster->address = "host:7363";
  EXPECT_OK(CheckServerOptions(options));
}

TEST(ServerOptionsTest, ServerOfAClusterNeedsAnEtcd) {
  ServerOptions options;
  options.cluster = {.etcd = {}, .server_name = "s"};

  EXPECT_THAT(CheckServerOptions(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("etcd: expected ")));
}

}  // namespace
}  // namespace tensorkv
