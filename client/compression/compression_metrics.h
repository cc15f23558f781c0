// What compression saves, in a Prometheus registry.

#ifndef TENSORKV_CLIENT_COMPRESSION_COMPRESSION_METRICS_H_
#define TENSORKV_CLIENT_COMPRESSION_COMPRESSION_METRICS_H_

#include <memory>

#include "client/compression/compressor.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace tensorkv {

// Counts the bytes of contributions that are encoded, by encoding:
//
//   tensorkv_client_compression_input_bytes_total   before
//   tensorkv_client_compression_output_bytes_total  after
//
// Keeps `registry` alive. Nothing where it is null.
Compressor::Observer CompressionCounters(
    std::shared_ptr<prometheus::Registry> registry);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_COMPRESSION_METRICS_H_
