// Servers that are one store by a real etcd: they make one placement, each
// takes its own keys alone, and one that is killed has the same keys when it
// comes back.

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "contract/proto_codec.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/integration/etcd_process.h"
#include "tests/integration/secure_etcd.h"
#include "tests/integration/server_process.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/stubs.h"

namespace tensorkv::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> WithFlags(const std::vector<std::string>& flags) {
  std::vector<std::string> all = {"--listen=127.0.0.1:0",
                                  "--metrics_listen=", "--budget=64MiB"};
  all.insert(all.end(), flags.begin(), flags.end());
  return all;
}

// A server of the cluster that the test talks to.
class Member {
 public:
  Member(const EtcdProcess& etcd, const std::string& name, int cluster_size)
      : Member({"--etcd=" + etcd.address(), "--cluster=test",
                "--server_name=" + name,
                absl::StrCat("--cluster_size=", cluster_size),
                "--cluster_partitions=64", "--cluster_lease=2s"}) {}
  explicit Member(const std::vector<std::string>& flags)
      : process_(WithFlags(flags)) {
    const std::string field = "listen=";
    const std::string line = process_.AwaitLine("the cluster " + field);
    const size_t begin = line.find(field) + field.size();
    address_ = line.substr(begin, line.find(' ', begin) - begin);
    stub_ = std::make_unique<Stubs>(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  }

  ServerProcess& process() { return process_; }
  const std::string& address() const { return address_; }

  DescribeClusterReply Describe() {
    grpc::ClientContext context;
    v1::DescribeClusterResponse response;
    EXPECT_TRUE(stub_->DescribeCluster(&context, {}, &response).ok());
    return response;
  }

  ClusterPlacement Placement() {
    return FromProto(Describe().placement()).value();
  }

  absl::Status Init(const std::string& key) {
    v1::InitRequest request;
    request.set_on_existing(v1::ON_EXISTING_KEEP);
    request.add_entries()->set_key(key);
    v1::Tensor& tensor = *request.mutable_entries(0)->mutable_tensor();
    tensor.set_dtype(v1::DTYPE_U8);
    tensor.add_shape(1);
    tensor.set_data("x");
    grpc::ClientContext context;
    v1::InitResponse response;
    return FromGrpcStatus(stub_->Init(&context, request, &response));
  }

 private:
  ServerProcess process_;
  std::string address_;
  std::unique_ptr<Stubs> stub_;
};

class ClusterTest : public ::testing::Test {
 protected:
  // Starts servers of those names, and waits until they serve.
  void StartAll(const std::vector<std::string>& names) {
    for (const std::string& name : names) Start(name, names.size());
    for (const auto& [name, member] : members_) {
      ASSERT_TRUE(member->process().AwaitServing());
    }
  }

  void Start(const std::string& name, size_t cluster_size) {
    members_[name] = std::make_unique<Member>(etcd_, name, cluster_size);
  }

  void Kill(const std::string& name) {
    members_.at(name)->process().Signal(SIGKILL);
    members_.at(name)->process().Wait();
  }

  std::string OwnerNameOf(const std::string& key) {
    const ClusterPlacement& placement = placement_;
    return placement.servers[OwnerOf(placement, "", key)].name;
  }

  // The first of the keys "k0", "k1", ... that the server owns.
  std::string KeyOf(const std::string& name) {
    int i = 0;
    while (OwnerNameOf(absl::StrCat("k", i)) != name) ++i;
    return absl::StrCat("k", i);
  }

  EtcdProcess etcd_;
  std::map<std::string, std::unique_ptr<Member>> members_;
  ClusterPlacement placement_;
};

TEST_F(ClusterTest, ServersMakeOnePlacementAndTakeTheirOwnKeysAlone) {
  StartAll({"a", "b", "c"});
  placement_ = members_["a"]->Placement();

  for (const auto& [name, member] : members_) {
    const DescribeClusterReply reply = member->Describe();
    EXPECT_EQ(reply.server_name(), name);
    const ClusterPlacement placement = FromProto(reply.placement()).value();
    EXPECT_EQ(placement.owners, placement_.owners);
    EXPECT_EQ(placement.version, 1u);
  }
  for (int i = 0; i < 50; ++i) {
    const std::string key = absl::StrCat("k", i);
    for (const auto& [name, member] : members_) {
      const absl::Status status = member->Init(key);
      if (name == OwnerNameOf(key)) {
        EXPECT_OK(status);
      } else {
        EXPECT_THAT(status, HasReason(Reason::kWrongServer));
      }
    }
  }
}

TEST_F(ClusterTest, KilledServerIsNotLiveAndComesBackToItsKeys) {
  StartAll({"a", "b"});
  placement_ = members_["a"]->Placement();
  Kill("b");
  ASSERT_NE(members_["a"]->process().AwaitLine("b is not live"), "");
  EXPECT_FALSE(members_["a"]->Placement().servers[1].live);

  Start("b", 2);

  ASSERT_TRUE(members_["b"]->process().AwaitServing());
  ASSERT_NE(members_["a"]->process().AwaitLine("b is live"), "");
  const ClusterPlacement after = members_["a"]->Placement();
  EXPECT_EQ(after.owners, placement_.owners);
  EXPECT_EQ(after.servers[1].address, members_["b"]->address());
  EXPECT_OK(members_["b"]->Init(KeyOf("b")));
  EXPECT_THAT(members_["b"]->Init(KeyOf("a")), HasReason(Reason::kWrongServer));
}

TEST_F(ClusterTest, ServersGoOnWhileEtcdIsAway) {
  StartAll({"a", "b"});
  placement_ = members_["a"]->Placement();
  etcd_.Stop();
  ASSERT_NE(members_["a"]->process().AwaitLine("cluster: out of touch"), "");

  EXPECT_OK(members_["a"]->Init(KeyOf("a")));
  EXPECT_THAT(members_["a"]->Init(KeyOf("b")), HasReason(Reason::kWrongServer));
  etcd_.Start();

  ASSERT_NE(members_["a"]->process().AwaitLine("cluster: registered as"), "");
  EXPECT_EQ(members_["a"]->Placement().owners, placement_.owners);
  EXPECT_OK(members_["a"]->Init(KeyOf("a")));
}

TEST_F(ClusterTest, PlacementThatEtcdHasLostIsPutBack) {
  StartAll({"a", "b"});
  placement_ = members_["a"]->Placement();
  etcd_.Stop();
  ASSERT_NE(members_["a"]->process().AwaitLine("cluster: out of touch"), "");
  etcd_.LoseData();
  etcd_.Start();
  ASSERT_NE(members_["a"]->process().AwaitLine("cluster: registered as"), "");

  Start("late", 1);

  ASSERT_TRUE(members_["late"]->process().AwaitServing());
  EXPECT_EQ(members_["late"]->Placement().owners, placement_.owners);
}

TEST_F(ClusterTest, OfTwoServersWithOneNameTheLaterHasTheKeys) {
  StartAll({"a"});
  const std::unique_ptr<Member> former = std::move(members_["a"]);

  Start("a", 1);

  ASSERT_TRUE(members_["a"]->process().AwaitServing());
  ASSERT_NE(former->process().AwaitLine("another server has the name"), "");
  EXPECT_OK(members_["a"]->Init("k"));
  EXPECT_THAT(former->Init("k"), HasReason(Reason::kWrongServer));
}

TEST_F(ClusterTest, ServerOutsideThePlacementOwnsNothing) {
  StartAll({"a"});

  Start("late", 1);

  ASSERT_TRUE(members_["late"]->process().AwaitServing());
  EXPECT_THAT(members_["late"]->Init("k"), HasReason(Reason::kWrongServer));
}

// Servers that etcd takes for a user, by a password in the file "password".
class SecureClusterTest : public ::testing::Test {
 protected:
  SecureClusterTest() { etcd_.Write("password", "secret\n"); }

  std::vector<std::string> Flags(const std::string& name,
                                 const std::string& user = "server") const {
    return {"--etcd=https://" + etcd_.address(),
            "--etcd_tls_ca=" + etcd_.Path("ca.crt"),
            "--etcd_user=" + user,
            "--etcd_password_file=" + etcd_.Path("password"),
            "--cluster=test",
            "--server_name=" + name,
            "--cluster_size=1",
            "--cluster_partitions=16"};
  }

  // Expects that a server with these flags ends at once, and says `text`.
  static void ExpectRefused(std::vector<std::string> flags,
                            const std::string& text) {
    // Etcd has more time to answer.
    flags.push_back("--cluster_lease=1m");
    ServerProcess process(WithFlags(flags));
    const std::string log = process.ReadAll();
    EXPECT_EQ(process.Wait(), 2);
    EXPECT_THAT(log, HasSubstr(text));
    EXPECT_THAT(log, ::testing::Not(HasSubstr("secret")));
  }

  SecureEtcd etcd_{"/tensorkv/test/"};
};

TEST_F(SecureClusterTest, ServerThatEtcdRefusesDoesNotStart) {
  ExpectRefused(Flags("a", "reader"),
                "a role that reads and writes what begins with "
                "/tensorkv/test/");
  etcd_.Write("password", "secret guess");
  ExpectRefused(Flags("a"),
                "user \"server\" and the password in etcd_password_file");
}

TEST_F(SecureClusterTest, ServerGoesOnThroughRestartsAndNewPasswords) {
  Member member(Flags("a"));
  ServerProcess& process = member.process();
  ASSERT_TRUE(process.AwaitServing());

  etcd_.process().Stop();
  ASSERT_NE(process.AwaitLine("cluster: out of touch"), "");
  etcd_.process().Start();
  ASSERT_NE(process.AwaitLine("cluster: registered as"), "");

  etcd_.ChangePassword("server", "new secret");
  ASSERT_NE(process.AwaitLine("etcd_password_file"), "");
  EXPECT_OK(member.Init("k")) << "what is known stays";
  etcd_.Write("password", "new secret");
  ASSERT_NE(process.AwaitLine("cluster: registered as"), "");
}

TEST_F(SecureClusterTest, NewAuthorityOfEtcdCountsWithoutARestart) {
  Member member(Flags("a"));
  ServerProcess& process = member.process();
  ASSERT_TRUE(process.AwaitServing());

  etcd_.process().Stop();
  etcd_.ChangeCertificate();
  etcd_.process().Launch();
  ASSERT_NE(process.AwaitLine("cluster: out of touch"), "");
  etcd_.Write("ca.crt", etcd_.Text("other_ca.crt"));

  ASSERT_NE(process.AwaitLine("cluster: registered as"), "");
}

}  // namespace
}  // namespace tensorkv::testing
