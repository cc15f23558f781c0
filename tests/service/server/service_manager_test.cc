#include "service/server/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;

// What a manager gets at a socket of that name, of what is sent to `socket`.
std::string Received(const std::string& name, const std::string& socket,
                     const std::string& state) {
  const FileDescriptor manager(::socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un address = {.sun_family = AF_UNIX};
  EXPECT_EQ(name.copy(address.sun_path, sizeof(address.sun_path)), name.size());
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  EXPECT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&address), size),
            0);
  EXPECT_OK(NotifyServiceManager(socket, state));
  std::string received(100, '\0');
  const ssize_t bytes =
      recv(manager.get(), received.data(), received.size(), MSG_DONTWAIT);
  received.resize(bytes < 0 ? 0 : bytes);
  return received;
}

TEST(ServiceManagerTest, HearsAtAFileAndAtANameWithoutOne) {
  // Sockets have short names, and tests' own directories long ones.
  const std::string path = absl::StrCat("/tmp/tensorkv-notify-", getpid());
  const std::string name = absl::StrCat("tensorkv-notify-", getpid());

  EXPECT_EQ(Received(path, path, "READY=1"), "READY=1");
  EXPECT_EQ(Received(std::string(1, '\0') + name, "@" + name, "STOPPING=1"),
            "STOPPING=1");
  unlink(path.c_str());
}

TEST(ServiceManagerTest, ThereMayBeNone) {
  EXPECT_OK(NotifyServiceManager("", "READY=1"));
  EXPECT_THAT(NotifyServiceManager("/none/such", "READY=1"),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(NotifyServiceManager(std::string(200, 'x'), "READY=1"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv
