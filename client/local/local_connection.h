// A Connection to a store in this process, without any network.

#ifndef TENSORKV_CLIENT_LOCAL_LOCAL_CONNECTION_H_
#define TENSORKV_CLIENT_LOCAL_LOCAL_CONNECTION_H_

#include <cstdint>

#include "base/alarms.h"
#include "client/connection.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/store/call_dispatch.h"
#include "service/store/memory_tensor_store.h"

namespace tensorkv {

struct LocalConnectionOptions {
  MemoryTensorStoreOptions store;
  // One update uses so many threads; 0 stands for one per core.
  int num_threads = 0;
  // The backend that keeps the tensors; null: the CPU. It outlives the
  // connection.
  Backend* backend = nullptr;
};

// Owns a store and calls it directly. Thread-safe. Limits are those
// of a server by default, except that no message bounds the size of a call.
//
//   Client client(std::make_unique<LocalConnection>(), {.target = "local"});
//
// Tensors are shared with the store, not copied: do not write into a tensor
// that was passed to a call or came from one. The connection outlives them.
class LocalConnection final : public Connection {
 public:
  LocalConnection() : LocalConnection(LocalConnectionOptions()) {}
  explicit LocalConnection(const LocalConnectionOptions& options);

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override;

 private:
  ServerStatus Describe() const;

  const MemoryTensorStoreOptions store_options_;
  const int64_t start_unix_seconds_;
  // These members stand in an order in which each uses only those before it.
  CpuBackend cpu_;
  Backend& backend_;
  SteadyAlarms alarms_;
  MemoryTensorStore store_;
  const CallDispatch calls_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_LOCAL_LOCAL_CONNECTION_H_
