#include "service/cluster/etcd_client.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/listening_sockets.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/integration/etcd_process.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace etcd_client_test {

using testing::EtcdProcess;
using testing::StatusIs;

constexpr absl::Duration kTimeout = absl::Seconds(20);
constexpr absl::Duration kLease = absl::Minutes(1);

// Where nobody listens.
std::string DeadAddress() {
  const auto sockets = ListeningSockets::Open("127.0.0.1:0");
  return absl::StrCat("127.0.0.1:", sockets.value().port());
}

// How many keys there are of that name: 0 or 1.
int Count(EtcdClient& etcd, const std::string& key) {
  etcdserverpb::TxnRequest txn;
  txn.add_success()->mutable_request_range()->set_key(key);
  return etcd.Txn(txn).value().responses(0).response_range().kvs_size();
}

void Put(EtcdClient& etcd, const std::string& key, int64_t lease) {
  etcdserverpb::TxnRequest txn;
  etcdserverpb::PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value("v");
  put.set_lease(lease);
  EXPECT_OK(etcd.Txn(txn).status());
}

TEST(EtcdClientTest, AsksTheNextEndpointWhereOneIsDead) {
  const EtcdProcess process;
  EtcdClient etcd({DeadAddress(), process.address()}, kTimeout);

  EXPECT_EQ(Count(etcd, "k"), 0);
}

TEST(EtcdClientTest, UnavailableWhereNobodyAnswers) {
  EtcdClient etcd({DeadAddress(), DeadAddress()}, kTimeout);

  EXPECT_THAT(etcd.Txn({}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(etcd.RenewLease(1), StatusIs(absl::StatusCode::kUnavailable));
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
  EtcdClient etcd({absl::StrCat("127.0.0.1:", port)}, kTimeout);

  EXPECT_THAT(etcd.RenewLease(1), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(EtcdClientTest, KeyGoesWithItsLease) {
  const EtcdProcess process;
  EtcdClient etcd({process.address()}, kTimeout);
  ASSERT_OK_AND_ASSIGN(const int64_t lease, etcd.GrantLease(kLease));
  Put(etcd, "k", lease);
  EXPECT_EQ(Count(etcd, "k"), 1);
  EXPECT_OK(etcd.RenewLease(lease));

  ASSERT_OK(etcd.RevokeLease(lease));

  EXPECT_EQ(Count(etcd, "k"), 0);
  EXPECT_THAT(etcd.RenewLease(lease), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace etcd_client_test
}  // namespace tensorkv
