#include "tests/integration/etcd_process.h"

#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/listening_sockets.h"
#include "gtest/gtest.h"
#include "tests/integration/spawn.h"

namespace tensorkv::testing {
namespace {

std::string NewDirectory() {
  std::string directory = ::testing::TempDir() + "/etcd_XXXXXX";
  EXPECT_NE(mkdtemp(directory.data()), nullptr);
  return directory;
}

// etcd cannot be told to take a free port and say which.
std::string FreeAddress() {
  const auto sockets = ListeningSockets::Open("127.0.0.1:0");
  return absl::StrCat("127.0.0.1:", sockets.value().port());
}

std::string TextOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

EtcdProcess::EtcdProcess(NotLaunched, EtcdTls tls)
    : tls_(std::move(tls)),
      directory_(NewDirectory()),
      address_(FreeAddress()),
      peer_address_(FreeAddress()) {}

EtcdProcess::EtcdProcess(EtcdTls tls)
    : EtcdProcess(NotLaunched(), std::move(tls)) {
  Start();
}

std::vector<std::unique_ptr<EtcdProcess>> EtcdProcess::StartMembers(int num) {
  std::vector<std::unique_ptr<EtcdProcess>> all;
  std::vector<std::string> members;
  for (int i = 0; i < num; ++i) {
    all.push_back(absl::WrapUnique(new EtcdProcess(NotLaunched(), {})));
    members.push_back(all.back()->Member());
  }
  for (auto& each : all) {
    each->members_ = absl::StrJoin(members, ",");
    each->Launch();
  }
  for (auto& each : all) each->AwaitAnswer();
  return all;
}

std::string EtcdProcess::Member() const {
  // The address is as good a name as any.
  return absl::StrCat(address_, "=http://", peer_address_);
}

void EtcdProcess::Launch() {
  const std::string client =
      absl::StrCat(tls_.cert.empty() ? "http://" : "https://", address_);
  const std::string peer = absl::StrCat("http://", peer_address_);
  std::vector<std::string> command = {"/usr/bin/etcd",
                                      "--name=" + address_,
                                      "--data-dir=" + directory_ + "/data",
                                      "--listen-client-urls=" + client,
                                      "--advertise-client-urls=" + client,
                                      "--listen-peer-urls=" + peer,
                                      "--initial-advertise-peer-urls=" + peer,
                                      "--initial-cluster=" + members_,
                                      "--bcrypt-cost=4"};
  if (!tls_.cert.empty()) {
    command.push_back("--cert-file=" + tls_.cert);
    command.push_back("--key-file=" + tls_.key);
  }
  if (tls_.asks_for_certificates) {
    command.push_back("--client-cert-auth");
    command.push_back("--trusted-ca-file=" + tls_.ca);
  }
  pid_ = Spawn(command, directory_ + "/log");
}

std::shared_ptr<grpc::Channel> EtcdProcess::NewChannel() const {
  grpc::ChannelArguments arguments;
  // It does not wait for attempts of others to connect.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      address_,
      tls_.cert.empty()
          ? grpc::InsecureChannelCredentials()
          : grpc::SslCredentials({.pem_root_certs = TextOf(tls_.ca),
                                  .pem_private_key = TextOf(tls_.key),
                                  .pem_cert_chain = TextOf(tls_.cert)}),
      arguments);
}

void EtcdProcess::AwaitAnswer() {
  EXPECT_TRUE(NewChannel()->WaitForConnected(std::chrono::system_clock::now() +
                                             std::chrono::minutes(1)));
}

void EtcdProcess::LoseData() {
  std::filesystem::remove_all(directory_ + "/data");
}

void EtcdProcess::Stop() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace tensorkv::testing
