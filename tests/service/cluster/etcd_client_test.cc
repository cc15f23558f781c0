#include "service/cluster/etcd_client.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/listening_sockets.h"
#include "base/mutex.h"
#include "channels/channels.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/integration/etcd_process.h"
#include "tests/integration/secure_etcd.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace etcd_client_test {

using ::testing::AllOf;
using testing::Authority;
using testing::EtcdProcess;
using ::testing::HasSubstr;
using testing::Identity;
using ::testing::Not;
using testing::SecureEtcd;
using testing::StatusIs;

constexpr absl::Duration kTimeout = absl::Seconds(20);
constexpr absl::Duration kLease = absl::Minutes(1);

// Where nobody listens.
std::string DeadAddress() {
  const auto sockets = ListeningSockets::Open("127.0.0.1:0");
  return absl::StrCat("127.0.0.1:", sockets.value().port());
}

// Asks in plain text, and is nobody.
struct PlainEtcd {
  explicit PlainEtcd(std::vector<std::string> endpoints)
      : client({.endpoints = std::move(endpoints), .timeout = kTimeout},
               &channels) {}

  Channels channels;
  EtcdClient client;
};

// How many keys there are of that name: 0 or 1.
int Count(EtcdClient& etcd, const std::string& key) {
  etcdserverpb::TxnRequest txn;
  txn.add_success()->mutable_request_range()->set_key(key);
  return etcd.Txn(txn).value().responses(0).response_range().kvs_size();
}

absl::Status Put(EtcdClient& etcd, const std::string& key, int64_t lease = 0) {
  etcdserverpb::TxnRequest txn;
  etcdserverpb::PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value("v");
  put.set_lease(lease);
  return etcd.Txn(txn).status();
}

TEST(EtcdClientTest, AsksTheNextEndpointWhereOneIsDead) {
  const EtcdProcess process;
  PlainEtcd etcd({DeadAddress(), process.address()});

  EXPECT_EQ(Count(etcd.client, "k"), 0);
}

TEST(EtcdClientTest, UnavailableWhereNobodyAnswers) {
  PlainEtcd etcd({DeadAddress(), DeadAddress()});

  EXPECT_THAT(etcd.client.Txn({}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(etcd.client.RenewLease(1),
              StatusIs(absl::StatusCode::kUnavailable));
}

// Ends streams that keep leases alive without an answer.
class SilentLeases final : public etcdserverpb::Lease::Service {
  grpc::Status LeaseKeepAlive(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse,
                               etcdserverpb::LeaseKeepAliveRequest>*) override {
    return grpc::Status::OK;
  }
};

TEST(EtcdClientTest, StreamWithoutAnAnswerDoesNotEndTheLease) {
  SilentLeases leases;
  int port = 0;
  const std::unique_ptr<grpc::Server> server =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                            &port)
          .RegisterService(&leases)
          .BuildAndStart();
  PlainEtcd etcd({absl::StrCat("127.0.0.1:", port)});

  EXPECT_THAT(etcd.client.RenewLease(1),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(EtcdClientTest, KeyGoesWithItsLease) {
  const EtcdProcess process;
  PlainEtcd etcd({process.address()});
  ASSERT_OK_AND_ASSIGN(const int64_t lease, etcd.client.GrantLease(kLease));
  ASSERT_OK(Put(etcd.client, "k", lease));
  EXPECT_EQ(Count(etcd.client, "k"), 1);
  EXPECT_OK(etcd.client.RenewLease(lease));

  ASSERT_OK(etcd.client.RevokeLease(lease));

  EXPECT_EQ(Count(etcd.client, "k"), 0);
  EXPECT_THAT(etcd.client.RenewLease(lease),
              StatusIs(absl::StatusCode::kNotFound));
}

// The texts of the files of Channels; those that are empty are no files.
std::vector<FileText> Texts(const Identity& identity,
                            const std::string& authority,
                            const std::string& password) {
  const auto file = [](const char* option, const std::string& text) {
    return FileText{option, text.empty() ? "" : "path", text};
  };
  return {file("etcd_tls_cert", identity.certificate),
          file("etcd_tls_key", identity.key), file("etcd_tls_ca", authority),
          file("etcd_password_file", password)};
}

// A caller over TLS, by texts that a test may replace.
struct TlsEtcd {
  TlsEtcd(const std::string& address, const std::string& user,
          const std::vector<FileText>& texts, absl::Duration timeout = kTimeout)
      : client({.endpoints = {address},
                .timeout = timeout,
                .user = user,
                .prefix = "/tensorkv/c/"},
               &channels) {
    EXPECT_OK(channels.credentials().Load(texts));
  }

  // That there are files is what makes it TLS.
  Channels channels{{.files = std::vector<WatchedFile>(4),
                     .secret = FileCredentials::Secret::kPassword}};
  EtcdClient client;
};

// Gives tokens to whoever has the password, and knows them until it is told to
// forget them.
class FakeAuth final : public etcdserverpb::Auth::Service {
 public:
  grpc::Status Authenticate(
      grpc::ServerContext* context,
      const etcdserverpb::AuthenticateRequest* request,
      etcdserverpb::AuthenticateResponse* response) override {
    MutexLock lock(&mutex_);
    ++num_asked_;
    if (request->password() != password_) {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              "etcdserver: authentication failed, invalid user ID or password"};
    }
    token_ = absl::StrCat(request->name(), ".", num_asked_);
    response->set_token(token_);
    return grpc::Status::OK;
  }

  // Takes the call, if it has the token and nothing else is to be answered.
  grpc::Status Check(const grpc::ServerContext& context) {
    MutexLock lock(&mutex_);
    if (refusals_left_ > 0) {
      --refusals_left_;
      return refusal_;
    }
    const auto found = context.client_metadata().find("token");
    if (!token_.empty() && found != context.client_metadata().end() &&
        found->second == token_) {
      return grpc::Status::OK;
    }
    return {grpc::StatusCode::UNAUTHENTICATED,
            "etcdserver: invalid auth token"};
  }

  void Forget() {
    MutexLock lock(&mutex_);
    token_.clear();
  }
  void SetPassword(const std::string& password) {
    MutexLock lock(&mutex_);
    password_ = password;
    token_.clear();
  }
  void Refuse(int num_calls, const grpc::Status& with) {
    MutexLock lock(&mutex_);
    refusals_left_ = num_calls;
    refusal_ = with;
  }
  int num_asked() {
    MutexLock lock(&mutex_);
    return num_asked_;
  }

 private:
  Mutex mutex_;
  std::string password_ ABSL_GUARDED_BY(mutex_) = "secret";
  std::string token_ ABSL_GUARDED_BY(mutex_);
  int num_asked_ ABSL_GUARDED_BY(mutex_) = 0;
  int refusals_left_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status refusal_ ABSL_GUARDED_BY(mutex_);
};

class FakeKv final : public etcdserverpb::KV::Service {
 public:
  explicit FakeKv(FakeAuth* auth) : auth_(*auth) {}

 private:
  grpc::Status Txn(grpc::ServerContext* context,
                   const etcdserverpb::TxnRequest*,
                   etcdserverpb::TxnResponse*) override {
    return auth_.Check(*context);
  }

  FakeAuth& auth_;
};

class FakeLeases final : public etcdserverpb::Lease::Service {
 public:
  explicit FakeLeases(FakeAuth* auth) : auth_(*auth) {}

 private:
  using Stream = grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse,
                                          etcdserverpb::LeaseKeepAliveRequest>;

  grpc::Status LeaseKeepAlive(grpc::ServerContext* context,
                              Stream* stream) override {
    const grpc::Status status = auth_.Check(*context);
    if (!status.ok()) return status;
    etcdserverpb::LeaseKeepAliveRequest request;
    stream->Read(&request);
    etcdserverpb::LeaseKeepAliveResponse response;
    response.set_ttl(1);
    stream->Write(response);
    return grpc::Status::OK;
  }

  FakeAuth& auth_;
};

// An etcd over TLS that looks at tokens, and at nothing else.
class EtcdTokenTest : public ::testing::Test {
 protected:
  EtcdTokenTest() {
    const Identity identity = authority_.Issue("etcd", "IP:127.0.0.1");
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
    int port = 0;
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0",
                                    grpc::SslServerCredentials(options), &port)
                  .RegisterService(&auth_)
                  .RegisterService(&kv_)
                  .RegisterService(&leases_)
                  .BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  std::vector<FileText> TextsWith(const std::string& password) const {
    return Texts({}, authority_.certificate(), password);
  }

  const Authority authority_{"authority"};
  FakeAuth auth_;
  FakeKv kv_{&auth_};
  FakeLeases leases_{&auth_};
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(EtcdTokenTest, OneTokenServesManyCalls) {
  TlsEtcd etcd(address_, "u", TextsWith("secret"));

  for (int i = 0; i < 3; ++i) EXPECT_OK(etcd.client.Txn({}));
  EXPECT_OK(etcd.client.RenewLease(1));

  EXPECT_EQ(auth_.num_asked(), 1);
}

TEST_F(EtcdTokenTest, CallsAndStreamsGetAnotherTokenForOneThatIsForgotten) {
  TlsEtcd etcd(address_, "u", TextsWith("secret"));
  EXPECT_OK(etcd.client.Txn({}));

  auth_.Forget();
  EXPECT_OK(etcd.client.Txn({}));
  auth_.Forget();
  EXPECT_OK(etcd.client.RenewLease(1));

  EXPECT_EQ(auth_.num_asked(), 3);
}

TEST_F(EtcdTokenTest, TokenFromBeforeAChangeOfRightsIsReplaced) {
  TlsEtcd etcd(address_, "u", TextsWith("secret"));
  EXPECT_OK(etcd.client.Txn({}));
  auth_.Refuse(1, {grpc::StatusCode::INVALID_ARGUMENT,
                   "etcdserver: revision of auth store is old"});

  EXPECT_OK(etcd.client.Txn({}));

  EXPECT_EQ(auth_.num_asked(), 2);
}

TEST_F(EtcdTokenTest, OneCallAsksForOneOtherTokenAlone) {
  TlsEtcd etcd(address_, "u", TextsWith("secret"));
  EXPECT_OK(etcd.client.Txn({}));
  auth_.Refuse(
      2, {grpc::StatusCode::UNAUTHENTICATED, "etcdserver: invalid auth token"});

  EXPECT_THAT(etcd.client.Txn({}),
              StatusIs(absl::StatusCode::kFailedPrecondition));

  EXPECT_EQ(auth_.num_asked(), 2);
}

TEST_F(EtcdTokenTest, WrongPasswordIsToldWithoutIt) {
  TlsEtcd etcd(address_, "u", TextsWith("guess"));

  EXPECT_THAT(
      etcd.client.Txn({}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr(address_), HasSubstr("user \"u\""),
                     HasSubstr("etcd_password_file"),
                     HasSubstr("invalid user ID"), Not(HasSubstr("guess")))));
  EXPECT_EQ(auth_.num_asked(), 1);
}

TEST_F(EtcdTokenTest, RefusalOfTheCallerNamesTheRoleThatItLacks) {
  TlsEtcd etcd(address_, "u", TextsWith("secret"));
  TlsEtcd nobody(address_, "", TextsWith(""));
  auth_.Refuse(1, {grpc::StatusCode::PERMISSION_DENIED,
                   "etcdserver: permission denied"});

  EXPECT_THAT(
      etcd.client.Txn({}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("user \"u\" to have a role that reads and "
                               "writes what begins with /tensorkv/c/"),
                     HasSubstr("permission denied"))));
  auth_.Refuse(1, {grpc::StatusCode::INVALID_ARGUMENT,
                   "etcdserver: user name is empty"});
  EXPECT_THAT(
      nobody.client.Txn({}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("etcd_user"), HasSubstr("user name is empty"))));
  EXPECT_EQ(auth_.num_asked(), 1);
}

TEST_F(EtcdTokenTest, OtherErrorsStayWhatTheyAre) {
  TlsEtcd etcd(address_, "u", TextsWith("secret"));
  auth_.Refuse(1, {grpc::StatusCode::INVALID_ARGUMENT,
                   "etcdserver: duplicate key given in txn request"});

  EXPECT_THAT(etcd.client.Txn({}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(EtcdTokenTest, ReplacedPasswordIsAskedWithFromThenOn) {
  TlsEtcd etcd(address_, "u", TextsWith("secret"));
  EXPECT_OK(etcd.client.Txn({}));
  auth_.SetPassword("other");
  EXPECT_THAT(etcd.client.Txn({}),
              StatusIs(absl::StatusCode::kFailedPrecondition));

  // Blanks around it are those of the file.
  ASSERT_OK(etcd.channels.credentials().Load(TextsWith(" other\n")));

  EXPECT_OK(etcd.client.Txn({}));
}

TEST_F(EtcdTokenTest, ReplacedAuthorityCountsForTheNextCall) {
  const Authority stranger("stranger");
  TlsEtcd etcd(address_, "u", Texts({}, stranger.certificate(), "secret"));
  EXPECT_THAT(etcd.client.Txn({}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(auth_.num_asked(), 0) << "the password went to a stranger";

  ASSERT_OK(etcd.channels.credentials().Load(TextsWith("secret")));

  EXPECT_OK(etcd.client.Txn({}));
}

TEST_F(EtcdTokenTest, WrongTextsLeaveTheLastRightOnesInUse) {
  TlsEtcd etcd(address_, "u", TextsWith("secret"));
  auto without_password = TextsWith("\n");
  auto without_authority = Texts({}, "nonsense", "secret");

  EXPECT_THAT(etcd.channels.credentials().Load(without_password),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("etcd_password_file: expected a password")));
  EXPECT_THAT(
      etcd.channels.credentials().Load(without_authority),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("etcd_tls_ca: ")));

  EXPECT_OK(etcd.client.Txn({}));
}

// Answers nobody until the test ends.
class SlowAuth final : public etcdserverpb::Auth::Service {
 public:
  Notification released;

 private:
  grpc::Status Authenticate(grpc::ServerContext*,
                            const etcdserverpb::AuthenticateRequest*,
                            etcdserverpb::AuthenticateResponse*) override {
    released.WaitForNotification();
    return grpc::Status::OK;
  }
};

TEST(EtcdClientTest, TokenIsWaitedForNoLongerThanTheCallMayTake) {
  const Authority authority("authority");
  const Identity identity = authority.Issue("etcd", "IP:127.0.0.1");
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
  SlowAuth auth;
  int port = 0;
  const std::unique_ptr<grpc::Server> server =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options),
                            &port)
          .RegisterService(&auth)
          .BuildAndStart();
  TlsEtcd etcd(absl::StrCat("127.0.0.1:", port), "u",
               Texts({}, authority.certificate(), "secret"), absl::Seconds(1));

  EXPECT_THAT(etcd.client.Txn({}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  auth.released.Notify();
}

// --- The real etcd -----------------------------------------------------------

constexpr char kKey[] = "/tensorkv/c/k";

// The user's, without a certificate.
std::vector<FileText> TextsOf(const SecureEtcd& etcd,
                              const std::string& password) {
  return Texts({}, etcd.Text("ca.crt"), password);
}

TEST(SecureEtcdTest, UserHasItsOwnKeysAlone) {
  SecureEtcd process("/tensorkv/c/");
  TlsEtcd etcd(process.address(), "server", TextsOf(process, "secret"));
  ASSERT_OK_AND_ASSIGN(const int64_t lease, etcd.client.GrantLease(kLease));

  EXPECT_OK(Put(etcd.client, kKey, lease));
  EXPECT_EQ(Count(etcd.client, kKey), 1);
  EXPECT_OK(etcd.client.RenewLease(lease));
  EXPECT_THAT(Put(etcd.client, "/tensorkv/d/k"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(etcd.client.RevokeLease(lease));
  EXPECT_EQ(Count(etcd.client, kKey), 0);
}

TEST(SecureEtcdTest, StrangersAreRefused) {
  SecureEtcd process("/tensorkv/c/");
  PlainEtcd plain({process.address()});
  TlsEtcd nobody(process.address(), "", TextsOf(process, ""));
  TlsEtcd wrong(process.address(), "server", TextsOf(process, "guess"));
  TlsEtcd unknown(process.address(), "unknown", TextsOf(process, "secret"));

  EXPECT_THAT(plain.client.Txn({}), StatusIs(absl::StatusCode::kUnavailable));
  for (TlsEtcd* each : {&nobody, &wrong, &unknown}) {
    EXPECT_THAT(Put(each->client, kKey),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  }
}

TEST(SecureEtcdTest, ChangedPasswordEndsTokens) {
  SecureEtcd process("/tensorkv/c/");
  TlsEtcd etcd(process.address(), "server", TextsOf(process, "secret"));
  EXPECT_OK(Put(etcd.client, kKey));

  process.ChangePassword("server", "other");

  EXPECT_THAT(Put(etcd.client, kKey),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("etcd_password_file")));
  EXPECT_OK(etcd.channels.credentials().Load(TextsOf(process, "other")));
  EXPECT_OK(Put(etcd.client, kKey));
}

TEST(SecureEtcdTest, RestartedEtcdTakesTheUserAgain) {
  SecureEtcd process("/tensorkv/c/");
  TlsEtcd etcd(process.address(), "server", TextsOf(process, "secret"));
  EXPECT_OK(Put(etcd.client, kKey));

  process.process().Stop();
  EXPECT_THAT(Put(etcd.client, kKey), StatusIs(absl::StatusCode::kUnavailable));
  process.process().Start();

  // The channel pauses between two attempts to connect.
  while (absl::IsUnavailable(Put(etcd.client, kKey))) {
  }
  EXPECT_OK(Put(etcd.client, kKey));
}

TEST(SecureEtcdTest, CertificateSaysWhoTheUserIs) {
  SecureEtcd process("/tensorkv/c/", /*asks_for_certificates=*/true);
  const auto texts = [&](const std::string& name) {
    process.Issue(name);
    return Texts({process.Text(name + ".crt"), process.Text(name + ".key")},
                 process.Text("ca.crt"), "");
  };
  TlsEtcd server(process.address(), "", texts("server"));
  TlsEtcd nobody(process.address(), "", texts("nobody"));
  TlsEtcd without(process.address(), "", TextsOf(process, ""));

  EXPECT_OK(Put(server.client, kKey));
  EXPECT_THAT(Put(nobody.client, kKey),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("etcd_tls_cert")));
  EXPECT_THAT(Put(without.client, kKey),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace etcd_client_test
}  // namespace tensorkv
