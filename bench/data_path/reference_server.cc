// The servers of ours that the data path is compared with.
//
//   reference_server raw|naive 127.0.0.1:0
//
// The line "ready listen=ADDRESS" goes to the standard error once the server
// answers; it serves until it is killed. Exit status: 1 if it cannot, 2 for
// wrong arguments.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "bench/data_path/exchange.h"
#include "bench/data_path/naive_store.grpc.pb.h"
#include "bench/data_path/workload.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace tensorkv::bench {
namespace {

void LogReady(int port) {
  std::cerr << "reference_server: ready listen=127.0.0.1:" << port << std::endl;
}

// Keeps values in strings. NOT_FOUND for a key without value.
class NaiveStoreService final : public NaiveStore::Service {
 public:
  grpc::Status Push(grpc::ServerContext*, const NaiveValues* request,
                    NaiveReply*) override {
    MutexLock lock(&mutex_);
    Store(*request);
    return grpc::Status::OK;
  }
  grpc::Status Pull(grpc::ServerContext*, const NaiveKeys* request,
                    NaiveValues* reply) override {
    MutexLock lock(&mutex_);
    for (const std::string& key : request->keys()) {
      grpc::Status status = Copy(key, reply);
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }
  grpc::Status PushPull(grpc::ServerContext*, const NaiveValues* request,
                        NaiveValues* reply) override {
    MutexLock lock(&mutex_);
    Store(*request);
    for (const NaiveValue& value : request->values()) {
      grpc::Status status = Copy(value.key(), reply);
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }
  grpc::Status Delete(grpc::ServerContext*, const NaiveKeys* request,
                      NaiveReply*) override {
    MutexLock lock(&mutex_);
    for (const std::string& key : request->keys()) values_.erase(key);
    return grpc::Status::OK;
  }

 private:
  void Store(const NaiveValues& values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const NaiveValue& value : values.values()) {
      values_[value.key()] = value.data();
    }
  }
  grpc::Status Copy(const std::string& key, NaiveValues* reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = values_.find(key);
    if (found == values_.end()) {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "no key " + key);
    }
    NaiveValue* value = reply->add_values();
    value->set_key(key);
    value->set_data(found->second);
    return grpc::Status::OK;
  }

  Mutex mutex_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
};

// Runs with gRPC's defaults but for the limit of messages, which is off.
absl::Status RunNaive(const std::string& address) {
  NaiveStoreService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address));
  }
  LogReady(port);
  server->Wait();
  return absl::OkStatus();
}

iovec VectorOf(RawHeader* header) {
  return {.iov_base = header, .iov_len = sizeof(*header)};
}

iovec VectorOf(const Tensor& tensor) {
  return {.iov_base = const_cast<char*>(tensor.data()),
          .iov_len = static_cast<size_t>(tensor.size_bytes())};
}

// Receives each value into memory that the connection keeps, and sends it from
// there. Returns when the connection ends.
absl::Status ServeRaw(int connection) {
  Tensor value;
  while (true) {
    RawHeader header;
    RETURN_IF_ERROR(ReceiveAll(connection, {VectorOf(&header)}));
    std::vector<iovec> reply = {VectorOf(&header)};
    if (header.operation == RawOperation::kPut) {
      const auto size_bytes = static_cast<int64_t>(header.size_bytes);
      if (value.size_bytes() != size_bytes) {
        ASSIGN_OR_RETURN(value, MakeZeros(size_bytes));
      }
      RETURN_IF_ERROR(ReceiveAll(connection, {VectorOf(value)}));
    } else if (header.operation == RawOperation::kGet) {
      header.size_bytes = value.size_bytes();
      reply.push_back(VectorOf(value));
    } else {
      value = Tensor();
    }
    RETURN_IF_ERROR(SendAll(connection, std::move(reply)));
  }
}

// Answers every connection on a thread of its own, until it is killed.
absl::Status RunRaw() {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, size) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), generic, &size) != 0) {
    return absl::UnavailableError("cannot listen on 127.0.0.1");
  }
  LogReady(ntohs(address.sin_port));
  while (true) {
    FileDescriptor connection(
        accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.is_open()) return absl::UnavailableError("cannot accept");
    const int on = 1;
    setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::thread([connection = std::move(connection)] {
      // The client sees that the connection is closed.
      ServeRaw(connection.get()).IgnoreError();
    }).detach();
  }
}

int Main(int argc, char** argv) {
  const std::string kind = argc == 3 ? argv[1] : "";
  if (kind != "raw" && kind != "naive") {
    std::cerr << "usage: reference_server raw|naive 127.0.0.1:0\n";
    return 2;
  }
  const absl::Status status = kind == "raw" ? RunRaw() : RunNaive(argv[2]);
  std::cerr << "reference_server: " << status << "\n";
  return 1;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
