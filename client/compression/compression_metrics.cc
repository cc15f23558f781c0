#include "client/compression/compression_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <string>
#include <utility>

namespace tensorkv {
namespace {

prometheus::Family<prometheus::Counter>& BytesFamily(
    prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

}  // namespace

Compressor::Observer CompressionCounters(
    std::shared_ptr<prometheus::Registry> registry) {
  if (registry == nullptr) return {};
  auto& input = BytesFamily(
      *registry, "tensorkv_client_compression_input_bytes_total",
      "Bytes of contributions before they were encoded, by encoding.");
  auto& output =
      BytesFamily(*registry, "tensorkv_client_compression_output_bytes_total",
                  "Bytes of encoded contributions, by encoding.");
  return [registry = std::move(registry), &input, &output](
             Compression::Kind kind, int64_t before, int64_t after) {
    const prometheus::Labels labels = {{"encoding", std::string(NameOf(kind))}};
    input.Add(labels).Increment(static_cast<double>(before));
    output.Add(labels).Increment(static_cast<double>(after));
  };
}

}  // namespace tensorkv
