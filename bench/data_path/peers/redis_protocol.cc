#include "bench/data_path/peers/redis_protocol.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bench/data_path/peers/workload.h"

namespace tensorkv::bench {
namespace {

void SendCommand(absl::string_view name, int64_t num_arguments,
                 Exchange* exchange) {
  exchange->Send(absl::StrCat("*", num_arguments + 1, "\r\n$", name.size(),
                              "\r\n", name, "\r\n"));
}

void SendKey(const ValueRange& range, int64_t index, Exchange* exchange) {
  const std::string key = KeyText(range.lane, index);
  exchange->Send(absl::StrCat("$", key.size(), "\r\n", key, "\r\n"));
}

}  // namespace

void RedisProtocol::AddPut(const ValueRange& range, const char* values,
                           Exchange* exchange) const {
  SendCommand(range.num_keys == 1 ? "SET" : "MSET", 2 * range.num_keys,
              exchange);
  for (int64_t i = 0; i < range.num_keys; ++i) {
    SendKey(range, i, exchange);
    exchange->Send(absl::StrCat("$", range.bytes_per_key, "\r\n"));
    exchange->SendValues(values + i * range.bytes_per_key, range.bytes_per_key);
    exchange->Send("\r\n");
  }
  exchange->Expect("+OK\r\n");
}

void RedisProtocol::AddGet(const ValueRange& range, char* values,
                           Exchange* exchange) const {
  SendCommand(range.num_keys == 1 ? "GET" : "MGET", range.num_keys, exchange);
  if (range.num_keys > 1) {
    exchange->Expect(absl::StrCat("*", range.num_keys, "\r\n"));
  }
  for (int64_t i = 0; i < range.num_keys; ++i) {
    SendKey(range, i, exchange);
    exchange->Expect(absl::StrCat("$", range.bytes_per_key, "\r\n"));
    exchange->ReceiveValues(values + i * range.bytes_per_key,
                            range.bytes_per_key);
    exchange->Expect("\r\n");
  }
}

void RedisProtocol::AddDelete(const ValueRange& range,
                              Exchange* exchange) const {
  SendCommand("DEL", range.num_keys, exchange);
  for (int64_t i = 0; i < range.num_keys; ++i) SendKey(range, i, exchange);
  exchange->Expect(absl::StrCat(":", range.num_keys, "\r\n"));
}

}  // namespace tensorkv::bench
