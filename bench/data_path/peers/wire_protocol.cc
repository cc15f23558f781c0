#include "bench/data_path/peers/wire_protocol.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bench/data_path/peers/workload.h"

namespace tensorkv::bench {
namespace {

// --- Raw --------------------------------------------------------------------

std::string Header(RawOperation operation, const ValueRange& range,
                   int64_t size_bytes) {
  const RawHeader header = {.operation = operation,
                            .slot = static_cast<uint32_t>(range.lane),
                            .size_bytes = static_cast<uint64_t>(size_bytes)};
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

void RawPut(const ValueRange& range, const char* values, Exchange* exchange) {
  const std::string header =
      Header(RawOperation::kPut, range, range.size_bytes());
  exchange->Send(header);
  exchange->SendValues(values, range.size_bytes());
  exchange->Expect(header);
}

void RawGet(const ValueRange& range, char* values, Exchange* exchange) {
  exchange->Send(Header(RawOperation::kGet, range, 0));
  exchange->Expect(Header(RawOperation::kGet, range, range.size_bytes()));
  exchange->ReceiveValues(values, range.size_bytes());
}

void RawDelete(const ValueRange& range, Exchange* exchange) {
  const std::string header = Header(RawOperation::kDelete, range, 0);
  exchange->Send(header);
  exchange->Expect(header);
}

// --- Redis ------------------------------------------------------------------

void SendCommand(absl::string_view name, int64_t num_arguments,
                 Exchange* exchange) {
  exchange->Send(absl::StrCat("*", num_arguments + 1, "\r\n$", name.size(),
                              "\r\n", name, "\r\n"));
}

void SendKey(const ValueRange& range, int64_t index, Exchange* exchange) {
  const std::string key = KeyText(range.lane, index);
  exchange->Send(absl::StrCat("$", key.size(), "\r\n", key, "\r\n"));
}

void RedisPut(const ValueRange& range, const char* values, Exchange* exchange) {
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

void RedisGet(const ValueRange& range, char* values, Exchange* exchange) {
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

void RedisDelete(const ValueRange& range, Exchange* exchange) {
  SendCommand("DEL", range.num_keys, exchange);
  for (int64_t i = 0; i < range.num_keys; ++i) SendKey(range, i, exchange);
  exchange->Expect(absl::StrCat(":", range.num_keys, "\r\n"));
}

// --- memcached --------------------------------------------------------------

// Its lines are bounded.
constexpr int64_t kKeysPerGet = 64;

void MemcachedPut(const ValueRange& range, const char* values,
                  Exchange* exchange) {
  for (int64_t i = 0; i < range.num_keys; ++i) {
    exchange->Send(absl::StrCat("set ", KeyText(range.lane, i), " 0 0 ",
                                range.bytes_per_key, "\r\n"));
    exchange->SendValues(values + i * range.bytes_per_key, range.bytes_per_key);
    exchange->Send("\r\n");
    exchange->Expect("STORED\r\n");
  }
}

void MemcachedGet(const ValueRange& range, char* values, Exchange* exchange) {
  for (int64_t begin = 0; begin < range.num_keys; begin += kKeysPerGet) {
    const int64_t end = std::min(begin + kKeysPerGet, range.num_keys);
    exchange->Send("get");
    for (int64_t i = begin; i < end; ++i) {
      exchange->Send(absl::StrCat(" ", KeyText(range.lane, i)));
      exchange->Expect(absl::StrCat("VALUE ", KeyText(range.lane, i), " 0 ",
                                    range.bytes_per_key, "\r\n"));
      exchange->ReceiveValues(values + i * range.bytes_per_key,
                              range.bytes_per_key);
      exchange->Expect("\r\n");
    }
    exchange->Send("\r\n");
    exchange->Expect("END\r\n");
  }
}

void MemcachedDelete(const ValueRange& range, Exchange* exchange) {
  for (int64_t i = 0; i < range.num_keys; ++i) {
    exchange->Send(absl::StrCat("delete ", KeyText(range.lane, i), "\r\n"));
    exchange->Expect("DELETED\r\n");
  }
}

}  // namespace

const WireProtocol kRawProtocol = {std::numeric_limits<int64_t>::max(), RawPut,
                                   RawGet, RawDelete};

// Redis's default for the longest string.
const WireProtocol kRedisProtocol = {int64_t{512} << 20, RedisPut, RedisGet,
                                     RedisDelete};

// memcached's bound for --max-item-size, which the key and the item's header
// count for.
const WireProtocol kMemcachedProtocol = {
    (int64_t{1} << 30) - 4096, MemcachedPut, MemcachedGet, MemcachedDelete};

}  // namespace tensorkv::bench
