#include "client/cli/server_look.h"

#include "client/cli/json_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ServerLook LookAfter(absl::Duration up, uint64_t updates, uint64_t uid = 7) {
  ServerLook look;
  look.time = absl::FromUnixSeconds(1000) + up;
  look.server.version = "1.2.3";
  look.server.start_unix_seconds = 1000;
  look.server.budget_bytes = 2048;
  NamespaceStatus status;
  status.name = "n";
  status.uid = uid;
  status.updates_applied = updates;
  look.namespaces = {status};
  return look;
}

TEST(ServerLookTest, RatesAreOfTheTimeBetween) {
  const ServerLook before = LookAfter(absl::Seconds(60), 100);
  const ServerLook look = LookAfter(absl::Seconds(64), 150);

  EXPECT_THAT(TopText(look, &before, Columns::kUsual),
              AllOf(HasSubstr("tensorkv 1.2.3, up 1m4s, 0 B of 2.0 KiB used\n"),
                    HasSubstr("  12.5 "), Not(HasSubstr("late"))));
  EXPECT_THAT(TopText(look, &before, Columns::kWide), HasSubstr("late"));
  EXPECT_THAT(TopJson(look, &before), HasSubstr("\"updates_per_second\":12.5"));
}

TEST(ServerLookTest, WhatWasNotThereHasNoRates) {
  const ServerLook look = LookAfter(absl::Seconds(64), 150);
  const ServerLook other = LookAfter(absl::Seconds(60), 100, /*uid=*/8);
  // It keeps the uids of what it restores.
  ServerLook former_server = LookAfter(absl::Seconds(60), 200);
  former_server.server.incarnation = 1;

  const ServerLook* const looks[] = {nullptr, &other, &former_server, &look};
  for (const ServerLook* before : looks) {
    EXPECT_EQ(RatesOf(look.namespaces[0], look, before), std::nullopt);
  }
  EXPECT_THAT(TopJson(look, nullptr), HasSubstr("\"updates_per_second\":null"));
}

}  // namespace
}  // namespace tensorkv
