#include "service/server/mirroring.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/open_device.h"
#include "service/server/server_options.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

// Returns which library a server with a GPU asks for; empty: none.
std::string LibraryAskedFor(const ServerOptions& options) {
  std::string asked;
  OpenedDevice device;
  device.open_link = [&asked](const std::string& library)
      -> absl::StatusOr<std::unique_ptr<DeviceLink>> {
    asked = library;
    return absl::FailedPreconditionError("it is not there");
  };
  const absl::StatusOr<std::unique_ptr<DeviceLink>> link =
      OpenMirrorLink(options, device);
  if (options.nccl == "auto" || options.nccl == "off") {
    EXPECT_OK(link.status());
  } else {
    EXPECT_THAT(link.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr(options.nccl)));
  }
  return asked;
}

TEST(OpenMirrorLinkTest, IsInAClusterWithoutTlsOrByName) {
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

  EXPECT_EQ(LibraryAskedFor(in_cluster), "libnccl.so.2");
  EXPECT_EQ(LibraryAskedFor(by_name), "/opt/libnccl.so");
  EXPECT_EQ(LibraryAskedFor(alone), "");
  EXPECT_EQ(LibraryAskedFor(with_tls), "");
  EXPECT_EQ(LibraryAskedFor(off), "");
}

// As servers without GPUs have it.
TEST(OpenMirrorLinkTest, HostHasNone) {
  ServerOptions in_cluster;
  in_cluster.cluster.emplace();

  const auto link = OpenMirrorLink(in_cluster, OpenedDevice());
  ASSERT_OK(link.status());
  EXPECT_EQ(*link, nullptr);
}

}  // namespace
}  // namespace tensorkv
