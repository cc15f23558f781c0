#include "client/prometheus/client_metrics.h"

#include <memory>
#include <string>

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

  metrics.OnEnded(Method::kPull, static_cast<absl::StatusCode>(99),
                  absl::Seconds(1), 0);

  EXPECT_THAT(prometheus::TextSerializer().Serialize(registry->Collect()),
              HasSubstr("grpc_code=\"Unknown\""));
}

TEST(ClientMetricsTest, RegistryLivesAsLongAsTheMetrics) {
  auto registry = std::make_shared<prometheus::Registry>();
  const std::weak_ptr<prometheus::Registry> seen = registry;
  {
    ClientMetrics metrics(registry);

    registry.reset();

    metrics.OnStarted(Method::kPush, 7);
    ASSERT_FALSE(seen.expired());
    EXPECT_THAT(prometheus::TextSerializer().Serialize(seen.lock()->Collect()),
                HasSubstr("tensorkv_client_sent_bytes_total 7\n"));
  }
  EXPECT_TRUE(seen.expired());
}

TEST(ClientMetricsTest, EncodedBytesCountByEncoding) {
  auto registry = std::make_shared<prometheus::Registry>();
  ClientMetrics metrics(registry);

  metrics.OnEncoded(Compression::Kind::kTwoBit, 4096, 256);
  metrics.OnEncoded(Compression::Kind::kTwoBit, 4096, 256);

  const std::string text =
      prometheus::TextSerializer().Serialize(registry->Collect());
  EXPECT_THAT(text, HasSubstr("tensorkv_client_compression_input_bytes_total{"
                              "encoding=\"2bit\"} 8192"));
  EXPECT_THAT(text, HasSubstr("tensorkv_client_compression_output_bytes_total{"
                              "encoding=\"2bit\"} 512"));
}

}  // namespace
}  // namespace tensorkv
