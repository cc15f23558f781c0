// An exchange as text, for tests of protocols.

#ifndef TENSORKV_TESTS_BENCH_DATA_PATH_PEERS_EXCHANGE_TEXT_H_
#define TENSORKV_TESTS_BENCH_DATA_PATH_PEERS_EXCHANGE_TEXT_H_

#include <string>

#include "bench/data_path/sockets/exchange.h"

namespace tensorkv::testing {

// The bytes that go out.
inline std::string RequestText(const bench::Exchange& exchange) {
  std::string text;
  for (const bench::Segment& segment : exchange.request()) {
    text.append(segment.data, segment.size);
  }
  return text;
}

// The bytes that must come back, with "<N>" for a value of N bytes.
inline std::string ReplyText(const bench::Exchange& exchange) {
  std::string text;
  for (const bench::Segment& segment : exchange.reply()) {
    if (segment.expected == nullptr) {
      text += "<" + std::to_string(segment.size) + ">";
    } else {
      text.append(segment.expected, segment.size);
    }
  }
  return text;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_BENCH_DATA_PATH_PEERS_EXCHANGE_TEXT_H_
