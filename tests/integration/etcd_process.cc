#include "tests/integration/etcd_process.h"

#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
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

}  // namespace

EtcdProcess::EtcdProcess()
    : directory_(NewDirectory()),
      address_(FreeAddress()),
      peer_address_(FreeAddress()) {
  Start();
}

void EtcdProcess::Start() {
  const std::string client = absl::StrCat("http://", address_);
  const std::string peer = absl::StrCat("http://", peer_address_);
  pid_ = Spawn(
      {"/usr/bin/etcd", "--data-dir=" + directory_ + "/data",
       "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
       "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
       "--initial-cluster=default=" + peer},
      directory_ + "/log");
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
