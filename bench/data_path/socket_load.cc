#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "bench/data_path/exchange.h"
#include "bench/data_path/loads.h"

namespace tensorkv::bench {
namespace socket_load {

// How a server is asked to keep values and to give them back. Each function
// appends a request, and the reply where all goes well.
struct Protocol {
  int64_t max_value_bytes = 0;
  void (*add_put)(const Workload&, const char* values, Exchange*) = nullptr;
  void (*add_get)(const Workload&, char* values, Exchange*) = nullptr;
  void (*add_delete)(const Workload&, Exchange*) = nullptr;
};

std::string Key(int64_t index) { return KeyText(/*lane=*/0, index); }

// --- Raw: all values of a workload are one value -----------------------------

std::string Header(RawOperation operation, int64_t size_bytes) {
  const RawHeader header = {.operation = operation,
                            .size_bytes = static_cast<uint64_t>(size_bytes)};
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

void RawPut(const Workload& workload, const char* values, Exchange* exchange) {
  const std::string header = Header(RawOperation::kPut, workload.size_bytes());
  exchange->Send(header);
  exchange->SendValues(values, workload.size_bytes());
  exchange->Expect(header);
}

void RawGet(const Workload& workload, char* values, Exchange* exchange) {
  exchange->Send(Header(RawOperation::kGet, 0));
  exchange->Expect(Header(RawOperation::kGet, workload.size_bytes()));
  exchange->ReceiveValues(values, workload.size_bytes());
}

void RawDelete(const Workload&, Exchange* exchange) {
  exchange->Send(Header(RawOperation::kDelete, 0));
  exchange->Expect(Header(RawOperation::kDelete, 0));
}

// --- Redis: RESP2; SET and GET, for several keys MSET and MGET ---------------

std::string Bulk(const std::string& text) {
  return absl::StrCat("$", text.size(), "\r\n", text, "\r\n");
}

void SendCommand(const std::string& name, int64_t num_arguments,
                 Exchange* exchange) {
  exchange->Send(absl::StrCat("*", num_arguments + 1, "\r\n", Bulk(name)));
}

void RedisPut(const Workload& workload, const char* values,
              Exchange* exchange) {
  SendCommand(workload.num_keys == 1 ? "SET" : "MSET", 2 * workload.num_keys,
              exchange);
  const int64_t bytes = workload.bytes_per_key;
  for (int64_t i = 0; i < workload.num_keys; ++i) {
    exchange->Send(absl::StrCat(Bulk(Key(i)), "$", bytes, "\r\n"));
    exchange->SendValues(values + i * bytes, bytes);
    exchange->Send("\r\n");
  }
  exchange->Expect("+OK\r\n");
}

void RedisGet(const Workload& workload, char* values, Exchange* exchange) {
  const int64_t num_keys = workload.num_keys;
  SendCommand(num_keys == 1 ? "GET" : "MGET", num_keys, exchange);
  if (num_keys > 1) exchange->Expect(absl::StrCat("*", num_keys, "\r\n"));
  const int64_t bytes = workload.bytes_per_key;
  for (int64_t i = 0; i < num_keys; ++i) {
    exchange->Send(Bulk(Key(i)));
    exchange->Expect(absl::StrCat("$", bytes, "\r\n"));
    exchange->ReceiveValues(values + i * bytes, bytes);
    exchange->Expect("\r\n");
  }
}

void RedisDelete(const Workload& workload, Exchange* exchange) {
  SendCommand("DEL", workload.num_keys, exchange);
  for (int64_t i = 0; i < workload.num_keys; ++i) exchange->Send(Bulk(Key(i)));
  exchange->Expect(absl::StrCat(":", workload.num_keys, "\r\n"));
}

// --- memcached: the text protocol, whose lines are bounded -------------------

constexpr int64_t kKeysPerGet = 64;

void MemcachedPut(const Workload& workload, const char* values,
                  Exchange* exchange) {
  const int64_t bytes = workload.bytes_per_key;
  for (int64_t i = 0; i < workload.num_keys; ++i) {
    exchange->Send(absl::StrCat("set ", Key(i), " 0 0 ", bytes, "\r\n"));
    exchange->SendValues(values + i * bytes, bytes);
    exchange->Send("\r\n");
    exchange->Expect("STORED\r\n");
  }
}

void MemcachedGet(const Workload& workload, char* values, Exchange* exchange) {
  const int64_t bytes = workload.bytes_per_key;
  for (int64_t begin = 0; begin < workload.num_keys; begin += kKeysPerGet) {
    const int64_t end = std::min(begin + kKeysPerGet, workload.num_keys);
    exchange->Send("get");
    for (int64_t i = begin; i < end; ++i) {
      exchange->Send(absl::StrCat(" ", Key(i)));
      exchange->Expect(absl::StrCat("VALUE ", Key(i), " 0 ", bytes, "\r\n"));
      exchange->ReceiveValues(values + i * bytes, bytes);
      exchange->Expect("\r\n");
    }
    exchange->Send("\r\n");
    exchange->Expect("END\r\n");
  }
}

void MemcachedDelete(const Workload& workload, Exchange* exchange) {
  for (int64_t i = 0; i < workload.num_keys; ++i) {
    exchange->Send(absl::StrCat("delete ", Key(i), "\r\n"));
    exchange->Expect("DELETED\r\n");
  }
}

Protocol ProtocolOf(const std::string& store) {
  // Redis's default for the longest string.
  if (store == "redis") {
    return {int64_t{512} << 20, RedisPut, RedisGet, RedisDelete};
  }
  // The bound for --max-item-size, which a key and a header count for.
  if (store == "memcached") {
    return {kGiB - 4096, MemcachedPut, MemcachedGet, MemcachedDelete};
  }
  return {std::numeric_limits<int64_t>::max(), RawPut, RawGet, RawDelete};
}

// A call that is made again and again over one connection.
struct Calls {
  ~Calls() {
    Exchange exchange;
    protocol.add_delete(workload, &exchange);
    // The next load's values take the place of these.
    exchange.Run(connection.get()).IgnoreError();
  }

  absl::Status Call() {
    RETURN_IF_ERROR(call.Run(connection.get()));
    if (!workload.pulls()) return absl::OkStatus();
    return CheckEnds(BytesOf(values), BytesOf(pulled));
  }

  Workload workload;
  Protocol protocol;
  FileDescriptor connection;
  Tensor values;
  Tensor pulled;
  Exchange call;
};

}  // namespace socket_load

absl::StatusOr<Load> SocketLoad(Servers* servers, const std::string& store,
                                const Workload& workload) {
  const socket_load::Protocol protocol = socket_load::ProtocolOf(store);
  if (workload.bytes_per_key > protocol.max_value_bytes) {
    return absl::OutOfRangeError(absl::StrCat(
        "takes values of at most ", protocol.max_value_bytes, " bytes"));
  }
  ASSIGN_OR_RETURN(const ServerProcess server, servers->Get(store));
  ASSIGN_OR_RETURN(FileDescriptor connection, ConnectTo(server.address));
  const auto calls = std::make_shared<socket_load::Calls>();
  calls->workload = workload;
  calls->protocol = protocol;
  calls->connection = std::move(connection);
  ASSIGN_OR_RETURN(calls->values, MakeValues(workload.size_bytes()));
  Exchange put;
  protocol.add_put(workload, calls->values.data(), &put);
  RETURN_IF_ERROR(put.Run(calls->connection.get()));
  if (workload.pushes()) calls->call = std::move(put);
  if (workload.pulls()) {
    ASSIGN_OR_RETURN(calls->pulled, MakeZeros(workload.size_bytes()));
    protocol.add_get(workload, calls->pulled.mutable_data(), &calls->call);
  }
  return Load{.call = [calls] { return calls->Call(); },
              .bytes = workload.bytes_moved(),
              .keys = workload.num_keys,
              .server = server.pid};
}

}  // namespace tensorkv::bench
