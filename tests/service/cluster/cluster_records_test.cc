#include "service/cluster/cluster_records.h"

#include <string>
#include <vector>

#include "channels/channels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/etcd_process.h"
#include "tests/integration/secure_etcd.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace cluster_records_test {

using testing::EtcdProcess;
using ::testing::HasSubstr;
using testing::SecureEtcd;
using testing::StatusIs;

void Ignore(const std::string&) {}

// What a server of that cluster hears that is that user.
absl::Status AccessOf(const SecureEtcd& etcd, const std::string& cluster,
                      const std::string& user) {
  Channels channels({.files = std::vector<WatchedFile>(4),
                     .secret = FileCredentials::Secret::kPassword});
  EXPECT_OK(
      channels.credentials().Load({{},
                                   {},
                                   {"etcd_tls_ca", "path", etcd.Text("ca.crt")},
                                   {"etcd_password_file", "path", "secret"}}));
  const ClusterOptions options = {.etcd = {etcd.address()},
                                  .etcd_tls = true,
                                  .etcd_user = user,
                                  .cluster = cluster,
                                  .server_name = "s",
                                  .lease = absl::Minutes(1)};
  return ClusterRecords(options, Ignore, &channels).CheckAccess();
}

TEST(ClusterRecordsTest, AccessTakesARoleToReadAndWrite) {
  const SecureEtcd etcd("/tensorkv/c/");

  EXPECT_OK(AccessOf(etcd, "c", "server"));
  EXPECT_OK(AccessOf(etcd, "d", "root"));
  for (const char* user : {"reader", "nobody"}) {
    EXPECT_THAT(AccessOf(etcd, "c", user),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("begins with /tensorkv/c/")));
  }
  EXPECT_THAT(AccessOf(etcd, "d", "server"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("begins with /tensorkv/d/")));
}

TEST(ClusterRecordsTest, LookAtAccessWritesNothing) {
  const EtcdProcess etcd;
  Channels channels;
  ClusterRecords records({.etcd = {etcd.address()}, .server_name = "s"}, Ignore,
                         &channels);

  EXPECT_OK(records.CheckAccess());

  ASSERT_OK_AND_ASSIGN(const ClusterReading reading, records.Read());
  EXPECT_TRUE(reading.placement.owners.empty());
  EXPECT_TRUE(reading.registrations.empty());
}

// It has lost its data, and with these its users.
TEST(ClusterRecordsTest, EtcdThatAsksNobodyIsNotTakenForASecureOne) {
  SecureEtcd etcd("/tensorkv/c/");
  EXPECT_OK(AccessOf(etcd, "c", "server"));

  etcd.process().Stop();
  etcd.process().LoseData();
  etcd.process().Start();

  EXPECT_THAT(AccessOf(etcd, "c", "server"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("authentication is not enabled")));
}

}  // namespace cluster_records_test
}  // namespace tensorkv
