#include "service/server/mirroring.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/open_device.h"
#include "service/server/server_options.h"

namespace tensorkv {
namespace {

// Which library a server asks for, that has so many GPUs; empty: none.
std::string LibraryAskedFor(const ServerOptions& options, size_t num_gpus) {
  std::string asked;
  std::vector<OpenedDevice> devices(num_gpus);
  for (OpenedDevice& device : devices) {
    device.open_link = [&asked](const std::string& library)
        -> absl::StatusOr<std::unique_ptr<DeviceLink>> {
      asked = library;
      return absl::FailedPreconditionError("it is not there");
    };
  }
  EXPECT_EQ(OpenMirrorLink(options, devices), nullptr);
  return asked;
}

TEST(OpenMirrorLinkTest, IsOfOneGpuInAClusterWithoutTlsOrByName) {
  ServerOptions alone;
  ServerOptions in_cluster;
  in_cluster.cluster.emplace();
  ServerOptions with_tls = in_cluster;
  with_tls.tls.cert = "cert.pem";
  with_tls.tls.key = "key.pem";
  ServerOptions off = in_cluster;
  off.nccl = "off";
  ServerOptions by_name = with_tls;
  by_name.nccl = "/opt/libnccl.so";

  EXPECT_EQ(LibraryAskedFor(in_cluster, 1), "libnccl.so.2");
  EXPECT_EQ(LibraryAskedFor(by_name, 1), "/opt/libnccl.so");
  EXPECT_EQ(LibraryAskedFor(in_cluster, 2), "");
  EXPECT_EQ(LibraryAskedFor(in_cluster, 0), "");
  EXPECT_EQ(LibraryAskedFor(alone, 1), "");
  EXPECT_EQ(LibraryAskedFor(with_tls, 1), "");
  EXPECT_EQ(LibraryAskedFor(off, 1), "");
}

// As servers without GPUs have it.
TEST(OpenMirrorLinkTest, HostHasNone) {
  ServerOptions in_cluster;
  in_cluster.cluster.emplace();

  EXPECT_EQ(OpenMirrorLink(in_cluster, std::vector<OpenedDevice>(1)), nullptr);
}

}  // namespace
}  // namespace tensorkv
