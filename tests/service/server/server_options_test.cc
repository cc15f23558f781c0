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
        BadOption{"max_entries", [](ServerOptions& o) { o.max_entries = 0; }},
        BadOption{"max_streams", [](ServerOptions& o) { o.max_streams = 0; }},
        BadOption{"threads", [](ServerOptions& o) { o.num_threads = -1; }},
        BadOption{"max_wait", [](ServerOptions& o) {
                    o.max_wait = absl::ZeroDuration();
                  }}));

}  // namespace
}  // namespace tensorkv
