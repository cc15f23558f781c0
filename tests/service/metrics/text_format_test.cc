#include "service/metrics/text_format.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "prometheus/metric_family.h"
#include "tests/testing/odd_names.h"

namespace tensorkv {
namespace {

// The value of the only label in a page, read as the format says: backslash,
// quote and line end are escaped.
std::string LabelIn(const std::string& page) {
  const size_t begin = page.find("=\"") + 2;
  std::string value;
  for (size_t i = begin; i < page.size() && page[i] != '"'; ++i) {
    const bool is_escaped = page[i] == '\\';
    if (is_escaped) ++i;
    value += is_escaped && page[i] == 'n' ? '\n' : page[i];
  }
  return value;
}

TEST(TextFormatTest, EveryNameComesBackFromItsLabel) {
  for (const std::string& name : testing::OddNames(256)) {
    prometheus::MetricFamily family = {
        .name = "keys", .help = "", .type = prometheus::MetricType::Gauge};
    family.metric.emplace_back().label = {{"namespace", name}};

    EXPECT_EQ(LabelIn(ToText({family})), name);
  }
}

}  // namespace
}  // namespace tensorkv
