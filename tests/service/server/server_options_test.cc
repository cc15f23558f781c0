#include "service/server/server_options.h"

#include <functional>
#include <string>

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

// Of a server in a cluster, but for what `spoil` makes of it.
template <typename Spoil>
auto InCluster(Spoil spoil) {
  return [spoil](ServerOptions& options) {
    options.cluster = {.etcd = {"e:1"}, .server_name = "s"};
    spoil(*options.cluster);
  };
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

struct BadOption {
  const char* name;
  std::function<void(ServerOptions&)> spoil;
};

void PrintTo(const BadOption& bad, std::ostream* stream) {
  *stream << bad.name;
}

class BadOptionTest : public ::testing::TestWithParam<BadOption> {};

TEST_P(BadOptionTest, IsInvalidAndNamed) {
  ServerOptions options;
  GetParam().spoil(options);

  EXPECT_THAT(
      CheckServerOptions(options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               StartsWith(std::string(GetParam().name) + ": expected ")));
}

INSTANTIATE_TEST_SUITE_P(
    Options, BadOptionTest,
    ::testing::Values(
        BadOption{"listen", [](ServerOptions& o) { o.listen = ""; }},
        BadOption{"listen", [](ServerOptions& o) { o.listen = "7363"; }},
        BadOption{"metrics_listen",
                  [](ServerOptions& o) { o.metrics_listen = "localhost:1"; }},
        BadOption{"tls_cert",
                  [](ServerOptions& o) {
                    o.metrics_listen = "127.0.0.1:1";
                    o.metrics_tls = true;
                  }},
        BadOption{"tls_key", [](ServerOptions& o) { o.tls.cert = "c"; }},
        BadOption{"tls_cert", [](ServerOptions& o) { o.tls.key = "k"; }},
        BadOption{"tls_cert", [](ServerOptions& o) { o.tls.client_ca = "a"; }},
        BadOption{"tls_cert",
                  [](ServerOptions& o) {
                    o.listen = "unix:/s";
                    o.tls = {.cert = "c", .key = "k"};
                  }},
        BadOption{"tls_client_ca",
                  [](ServerOptions& o) {
                    o.tls = {.cert = "c",
                             .key = "k",
                             .client_cert_is_optional = true};
                  }},
        BadOption{"policy_file", [](ServerOptions& o) { o.token_file = "t"; }},
        BadOption{"max_message_bytes",
                  [](ServerOptions& o) { o.max_message_bytes = 1023; }},
        BadOption{
            "max_message_bytes",
            [](ServerOptions& o) { o.max_message_bytes = uint64_t{1} << 31; }},
        BadOption{"max_streams", [](ServerOptions& o) { o.max_streams = 0; }},
        BadOption{"etcd", InCluster([](auto& c) { c.etcd = {}; })},
        BadOption{"cluster", InCluster([](auto& c) { c.cluster = "a/b"; })},
        BadOption{"server_name",
                  InCluster([](auto& c) { c.server_name = ""; })},
        BadOption{"server_name",
                  InCluster([](auto& c) { c.server_name = "s\xff"; })},
        BadOption{"cluster_address",
                  InCluster([](auto& c) { c.address = "h\xff:1"; })},
        BadOption{"cluster_size", InCluster([](auto& c) { c.size = 0; })},
        BadOption{"cluster_partitions", InCluster([](auto& c) {
                    c.num_partitions = 1;
                    c.size = 2;
                  })},
        BadOption{"cluster_weight", InCluster([](auto& c) { c.weight = 0; })},
        BadOption{"cluster_lease",
                  InCluster([](auto& c) { c.lease = absl::Seconds(1); })},
        BadOption{"cluster_lease", InCluster([](auto& c) {
                    c.lease = absl::Milliseconds(2500);
                  })},
        BadOption{"cluster_lease",
                  InCluster([](auto& c) { c.lease = absl::Seconds(601); })},
        BadOption{"cluster_lost_after", InCluster([](auto& c) {
                    c.lost_after = c.lease;
                    c.checkpoints = "/shared";
                  })},
        BadOption{"cluster_lost_after",
                  InCluster([](auto& c) { c.lost_after = absl::Minutes(5); })},
        BadOption{"cluster_tls_ca",
                  InCluster([](auto& c) { c.tls_ca = "ca"; })},
        BadOption{"cluster_token_file",
                  InCluster([](auto& c) { c.token_file = "t"; })},
        BadOption{"threads", [](ServerOptions& o) { o.num_threads = -1; }}));

}  // namespace
}  // namespace tensorkv
