#include "service/metrics/text_format.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace tensorkv {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// All integers up to there are doubles.
constexpr double kMaxInteger = 1LL << 53;
// From there on, fixed notation takes few zeros.
constexpr double kMinFixed = 1e-6;

std::string NumberOf(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::abs(value) < kMaxInteger) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  char text[64];
  const bool is_small = std::abs(value) < kMinFixed;
  const auto end = std::to_chars(std::begin(text), std::end(text), value,
                                 is_small ? std::chars_format::scientific
                                          : std::chars_format::fixed)
                       .ptr;
  return std::string(text, end);
}

const char* NameOf(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Summary:
      return "summary";
    case MetricType::Histogram:
      return "histogram";
    default:
      return "untyped";
  }
}

// Writes the samples of one metric.
class Samples {
 public:
  Samples(const std::string& name, const ClientMetric& metric,
          std::string* page)
      : name_(name), page_(*page) {
    for (const ClientMetric::Label& label : metric.label) {
      AddLabel(labels_, label.name, label.value);
    }
  }

  void Add(absl::string_view suffix, double value, absl::string_view label = "",
           double label_value = 0) {
    std::string labels = labels_;
    if (!label.empty()) AddLabel(labels, label, NumberOf(label_value));
    absl::StrAppend(&page_, name_, suffix);
    if (!labels.empty()) absl::StrAppend(&page_, "{", labels, "}");
    absl::StrAppend(&page_, " ", NumberOf(value), "\n");
  }

 private:
  static void AddLabel(std::string& labels, absl::string_view name,
                       absl::string_view value) {
    absl::StrAppend(&labels, labels.empty() ? "" : ",", name, "=\"",
                    absl::StrReplaceAll(
                        value, {{"\\", "\\\\"}, {"\n", "\\n"}, {"\"", "\\\""}}),
                    "\"");
  }

  const std::string& name_;
  std::string& page_;
  std::string labels_;
};

void AddSummary(const ClientMetric::Summary& summary, Samples& samples) {
  for (const auto& quantile : summary.quantile) {
    samples.Add("", quantile.value, "quantile", quantile.quantile);
  }
  samples.Add("_sum", summary.sample_sum);
  samples.Add("_count", static_cast<double>(summary.sample_count));
}

void AddHistogram(const ClientMetric::Histogram& histogram, Samples& samples) {
  for (const auto& bucket : histogram.bucket) {
    samples.Add("_bucket", static_cast<double>(bucket.cumulative_count), "le",
                bucket.upper_bound);
  }
  if (histogram.bucket.empty() ||
      !std::isinf(histogram.bucket.back().upper_bound)) {
    samples.Add("_bucket", static_cast<double>(histogram.sample_count), "le",
                INFINITY);
  }
  samples.Add("_sum", histogram.sample_sum);
  samples.Add("_count", static_cast<double>(histogram.sample_count));
}

void AddMetric(const MetricFamily& family, const ClientMetric& metric,
               std::string* page) {
  Samples samples(family.name, metric, page);
  switch (family.type) {
    case MetricType::Counter:
      return samples.Add("", metric.counter.value);
    case MetricType::Gauge:
      return samples.Add("", metric.gauge.value);
    case MetricType::Summary:
      if (metric.summary.sample_count == 0) return;
      return AddSummary(metric.summary, samples);
    case MetricType::Histogram:
      if (metric.histogram.sample_count == 0) return;
      return AddHistogram(metric.histogram, samples);
    default:
      return samples.Add("", metric.untyped.value);
  }
}

}  // namespace

std::string ToText(const std::vector<MetricFamily>& families) {
  std::string page;
  std::string metrics;
  for (const MetricFamily& family : families) {
    metrics.clear();
    for (const ClientMetric& metric : family.metric) {
      AddMetric(family, metric, &metrics);
    }
    if (metrics.empty()) continue;
    absl::StrAppend(
        &page, "# HELP ", family.name, " ",
        absl::StrReplaceAll(family.help, {{"\\", "\\\\"}, {"\n", "\\n"}}),
        "\n# TYPE ", family.name, " ", NameOf(family.type), "\n", metrics);
  }
  return page;
}

}  // namespace tensorkv
