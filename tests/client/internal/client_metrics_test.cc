#include "client/internal/client_metrics.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;

TEST(ClientMetricsTest, CodeBeyondTheKnownOnesCountsAsUnknown) {
  auto registry = std::make_shared<prometheus::Registry>();
  ClientMetrics metrics(registry);

  metrics.CountHandled(Method::kPull, static_cast<absl::StatusCode>(99),
                       absl::Seconds(1));

  EXPECT_THAT(prometheus::TextSerializer().Serialize(registry->Collect()),
              HasSubstr("grpc_code=\"Unknown\""));
}

TEST(ClientMetricsTest, RegistryLivesAsLongAsTheMetrics) {
  auto registry = std::make_shared<prometheus::Registry>();
  ClientMetrics metrics(registry);

  registry.reset();

  metrics.CountStarted(Method::kPush);
}

}  // namespace
}  // namespace tensorkv
