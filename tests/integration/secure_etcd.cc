#include "tests/integration/secure_etcd.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "etcd_admin.pb.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/client_unary_call.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/rpc_method.h"
#include "gtest/gtest.h"

namespace tensorkv::testing {
namespace {

constexpr char kPassword[] = "secret";

std::string NewDirectory() {
  std::string directory = ::testing::TempDir() + "/secure_etcd_XXXXXX";
  EXPECT_NE(mkdtemp(directory.data()), nullptr);
  return directory;
}

etcd::Names NamesOf(const std::string& first, const std::string& second = "") {
  etcd::Names names;
  names.set_first(first);
  names.set_second(second);
  return names;
}

etcd::Grant GrantOf(const std::string& role, const std::string& prefix,
                    bool may_write) {
  etcd::Grant grant;
  grant.set_role(role);
  etcd::Permission& permission = *grant.mutable_permission();
  permission.set_kind(may_write ? 2 : 0);
  permission.set_begin(prefix);
  std::string end = prefix;
  ++end.back();
  permission.set_end(end);
  return grant;
}

}  // namespace

SecureEtcd::SecureEtcd(const std::string& prefix, bool asks_for_certificates)
    : directory_(NewDirectory()), process_(Files(asks_for_certificates)) {
  SetUp(prefix);
}

std::string SecureEtcd::Path(const std::string& name) const {
  return absl::StrCat(directory_, "/", name);
}

std::string SecureEtcd::Text(const std::string& name) const {
  std::stringstream text;
  text << std::ifstream(Path(name)).rdbuf();
  return text.str();
}

void SecureEtcd::Write(const std::string& name, const std::string& text) const {
  std::ofstream(Path(name)) << text;
}

void SecureEtcd::Issue(const Authority& authority,
                       const std::string& name) const {
  const Identity identity = authority.Issue(name, "IP:127.0.0.1");
  Write(name + ".crt", identity.certificate);
  Write(name + ".key", identity.key);
}

void SecureEtcd::ChangeCertificate() const {
  Issue(other_authority_, "etcd");
  Write("other_ca.crt", other_authority_.certificate());
}

void SecureEtcd::ChangePassword(const std::string& user,
                                const std::string& password) {
  // It may have started again, and forgotten the token of before.
  LogIn();
  Ask("UserChangePassword", NamesOf(user, password));
}

// Writes what etcd reads when it starts.
EtcdTls SecureEtcd::Files(bool asks_for_certificates) const {
  Issue("etcd");
  Write("ca.crt", authority_.certificate());
  return {.cert = Path("etcd.crt"),
          .key = Path("etcd.key"),
          .ca = Path("ca.crt"),
          .asks_for_certificates = asks_for_certificates};
}

template <typename Request>
std::string SecureEtcd::Ask(const char* method, const Request& request) {
  const std::string path = absl::StrCat("/etcdserverpb.Auth/", method);
  const std::shared_ptr<grpc::Channel> channel = process_.NewChannel();
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(1));
  if (!token_.empty()) context.AddMetadata("token", token_);
  etcd::Answer answer;
  const grpc::Status status =
      grpc::internal::BlockingUnaryCall<Request, etcd::Answer,
                                        grpc::protobuf::MessageLite,
                                        grpc::protobuf::MessageLite>(
          channel.get(),
          grpc::internal::RpcMethod(path.c_str(),
                                    grpc::internal::RpcMethod::NORMAL_RPC),
          &context, request, &answer);
  EXPECT_TRUE(status.ok()) << method << ": " << status.error_message();
  return answer.token();
}

void SecureEtcd::SetUp(const std::string& prefix) {
  for (const char* user : {"root", "server", "reader", "nobody"}) {
    Ask("UserAdd", NamesOf(user, kPassword));
  }
  for (const char* role : {"server", "reader"}) {
    Ask("RoleAdd", NamesOf(role));
    Ask("UserGrantRole", NamesOf(role, role));
  }
  Ask("RoleGrantPermission", GrantOf("server", prefix, /*may_write=*/true));
  Ask("RoleGrantPermission", GrantOf("reader", prefix, /*may_write=*/false));
  Ask("RoleAdd", NamesOf("root"));
  Ask("UserGrantRole", NamesOf("root", "root"));
  Ask("AuthEnable", etcd::Names());
}

void SecureEtcd::LogIn() {
  token_.clear();
  token_ = Ask("Authenticate", NamesOf("root", kPassword));
}

}  // namespace tensorkv::testing
