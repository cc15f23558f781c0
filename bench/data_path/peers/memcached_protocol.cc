#include "bench/data_path/peers/memcached_protocol.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/data_path/peers/workload.h"

namespace tensorkv::bench {

void MemcachedProtocol::AddPut(const ValueRange& range, const char* values,
                               Exchange* exchange) const {
  for (int64_t i = 0; i < range.num_keys; ++i) {
    exchange->Send(absl::StrCat("set ", KeyText(range.lane, i), " 0 0 ",
                                range.bytes_per_key, "\r\n"));
    exchange->SendValues(values + i * range.bytes_per_key, range.bytes_per_key);
    exchange->Send("\r\n");
    exchange->Expect("STORED\r\n");
  }
}

void MemcachedProtocol::AddGet(const ValueRange& range, char* values,
                               Exchange* exchange) const {
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

void MemcachedProtocol::AddDelete(const ValueRange& range,
                                  Exchange* exchange) const {
  for (int64_t i = 0; i < range.num_keys; ++i) {
    exchange->Send(absl::StrCat("delete ", KeyText(range.lane, i), "\r\n"));
    exchange->Expect("DELETED\r\n");
  }
}

}  // namespace tensorkv::bench
