// Servers of one cluster, in this process.

#ifndef TENSORKV_TESTS_CLIENT_CLUSTER_TEST_CLUSTER_H_
#define TENSORKV_TESTS_CLIENT_CLUSTER_TEST_CLUSTER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/client.h"
#include "client/cluster/connect.h"
#include "contract/placement.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/testing/kept_port.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_device.h"

namespace tensorkv::testing {

// Servers "s0", "s1", ..., who own the partitions in turns.
class TestCluster {
 public:
  explicit TestCluster(size_t num_servers, uint64_t split_bytes = 0) {
    placement_.cluster = "test";
    placement_.split_bytes = split_bytes;
    for (size_t i = 0; i < num_servers; ++i) {
      servers_.push_back(ServerAt("127.0.0.1:0"));
      placement_.servers.push_back({.name = absl::StrCat("s", i),
                                    .address = servers_.back()->address(),
                                    .live = true});
    }
    for (uint32_t i = 0; i < 64; ++i) {
      placement_.owners.push_back(i % static_cast<uint32_t>(num_servers));
    }
    SetOwners(placement_.owners);
  }

  // Another placement, which all servers know then.
  void SetOwners(std::vector<uint32_t> owners) {
    ++placement_.version;
    placement_.owners = std::move(owners);
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i] == nullptr) continue;
      EXPECT_OK(
          servers_[i]->SetPlacement(placement_, placement_.servers[i].name));
    }
  }

  // Another placement, in which these partitions are lost.
  void SetLost(std::vector<LostPartitions> lost) {
    placement_.lost = std::move(lost);
    SetOwners(placement_.owners);
  }

  // Another placement, which that server alone knows so far.
  void SetOwnersAt(size_t server, std::vector<uint32_t> owners) {
    ++placement_.version;
    placement_.owners = std::move(owners);
    EXPECT_OK(servers_[server]->SetPlacement(placement_,
                                             placement_.servers[server].name));
  }

  // Nobody answers at its address any more.
  void Stop(size_t server) {
    const int port = servers_[server]->port();
    servers_[server].reset();
    kept_ports_.push_back(std::make_unique<KeptPort>(port));
  }

  // A server without what it had answers at its address.
  void Restart(size_t server) {
    const std::string address = servers_[server]->address();
    servers_[server].reset();
    servers_[server] = ServerAt(address);
    EXPECT_OK(servers_[server]->SetPlacement(placement_,
                                             placement_.servers[server].name));
  }

  // The last server is gone, and what it had is the first one's.
  void RemoveLast() {
    servers_.pop_back();
    placement_.servers.pop_back();
    std::vector<uint32_t> owners = placement_.owners;
    for (uint32_t& owner : owners) {
      if (owner == servers_.size()) owner = 0;
    }
    SetOwners(std::move(owners));
  }

  const ClusterPlacement& placement() const { return placement_; }
  const std::string& address(size_t server) const {
    return placement_.servers[server].address;
  }
  std::string target() const {
    return absl::StrCat("cluster:",
                        absl::StrJoin(placement_.servers, ",",
                                      [](std::string* out, const auto& server) {
                                        absl::StrAppend(out, server.address);
                                      }));
  }

  std::unique_ptr<Connection> Connect(
      const TransferOptions& transfer = TransferOptions()) const {
    return ConnectTo({.target = target(), .transfer = transfer},
                     /*observer=*/nullptr, Backoff())
        .value();
  }
  // To one server, as if there were no other.
  std::unique_ptr<Connection> ConnectToOne(size_t server) const {
    return ConnectTo({.target = address(server)}, /*observer=*/nullptr,
                     Backoff())
        .value();
  }

  // A key that the server owns; another for each `number`.
  std::string KeyOf(size_t server, const std::string& name_space = "",
                    int number = 0) const {
    for (int i = 0;; ++i) {
      std::string key = absl::StrCat("k", number, "/", i);
      if (OwnerOf(placement_, name_space, key) == server) return key;
    }
  }
  size_t HomeOf(const std::string& name_space) const {
    return OwnerOf(placement_, name_space, "");
  }

 private:
  static std::unique_ptr<Server> ServerAt(const std::string& address) {
    return Server::Create({.listen = address,
                           .device = TestDeviceChoice(),
                           .budget_bytes = 1 << 30,
                           .num_threads = 2})
        .value();
  }

  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<KeptPort>> kept_ports_;
  ClusterPlacement placement_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_CLUSTER_TEST_CLUSTER_H_
