// The server's side of naive_store.proto.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_SERVER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_SERVER_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "bench/data_path/peers/naive_store.grpc.pb.h"
#include "grpcpp/server.h"

namespace tensorkv::bench {

// Keeps values in strings. Thread-safe. NOT_FOUND for a key without value.
class NaiveStoreService final : public NaiveStore::Service {
 public:
  grpc::Status Push(grpc::ServerContext* context, const NaiveValues* request,
                    NaiveReply* reply) override;
  grpc::Status Pull(grpc::ServerContext* context, const NaiveKeys* request,
                    NaiveValues* reply) override;
  grpc::Status PushPull(grpc::ServerContext* context,
                        const NaiveValues* request,
                        NaiveValues* reply) override;
  grpc::Status Delete(grpc::ServerContext* context, const NaiveKeys* request,
                      NaiveReply* reply) override;
  grpc::Status Echo(grpc::ServerContext* context, const NaiveEcho* request,
                    NaiveEcho* reply) override;

 private:
  void Store(const NaiveValues& values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status Copy(const std::string& key, NaiveValues* reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
};

// A server of a NaiveStoreService, with gRPC's defaults but for the limit of
// messages, which is off.
class NaiveServer {
 public:
  // Errors: Unavailable if it cannot listen on `address`, which may be
  // "127.0.0.1:0" or "unix:/path".
  static absl::StatusOr<std::unique_ptr<NaiveServer>> Start(
      const std::string& address);

  // Where it listens.
  const std::string& address() const { return address_; }

  // Returns when the server is shut down.
  void Wait() { server_->Wait(); }

 private:
  NaiveServer() = default;

  std::string address_;
  NaiveStoreService service_;
  std::unique_ptr<grpc::Server> server_;  // last: it uses the service
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_NAIVE_SERVER_H_
