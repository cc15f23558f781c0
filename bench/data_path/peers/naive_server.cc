#include "bench/data_path/peers/naive_server.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace tensorkv::bench {

grpc::Status NaiveStoreService::Push(grpc::ServerContext*,
                                     const NaiveValues* request, NaiveReply*) {
  MutexLock lock(&mutex_);
  Store(*request);
  return grpc::Status::OK;
}

grpc::Status NaiveStoreService::Pull(grpc::ServerContext*,
                                     const NaiveKeys* request,
                                     NaiveValues* reply) {
  MutexLock lock(&mutex_);
  for (const std::string& key : request->keys()) {
    grpc::Status status = Copy(key, reply);
    if (!status.ok()) return status;
  }
  return grpc::Status::OK;
}

grpc::Status NaiveStoreService::PushPull(grpc::ServerContext*,
                                         const NaiveValues* request,
                                         NaiveValues* reply) {
  MutexLock lock(&mutex_);
  Store(*request);
  for (const NaiveValue& value : request->values()) {
    grpc::Status status = Copy(value.key(), reply);
    if (!status.ok()) return status;
  }
  return grpc::Status::OK;
}

grpc::Status NaiveStoreService::Delete(grpc::ServerContext*,
                                       const NaiveKeys* request, NaiveReply*) {
  MutexLock lock(&mutex_);
  for (const std::string& key : request->keys()) values_.erase(key);
  return grpc::Status::OK;
}

grpc::Status NaiveStoreService::Echo(grpc::ServerContext*,
                                     const NaiveEcho* request,
                                     NaiveEcho* reply) {
  reply->set_data(request->data());
  return grpc::Status::OK;
}

void NaiveStoreService::Store(const NaiveValues& values) {
  for (const NaiveValue& value : values.values()) {
    values_[value.key()] = value.data();
  }
}

grpc::Status NaiveStoreService::Copy(const std::string& key,
                                     NaiveValues* reply) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND,
                        absl::StrCat("no key \"", key, "\""));
  }
  NaiveValue* value = reply->add_values();
  value->set_key(key);
  value->set_data(found->second);
  return grpc::Status::OK;
}

absl::StatusOr<std::unique_ptr<NaiveServer>> NaiveServer::Start(
    const std::string& address) {
  std::unique_ptr<NaiveServer> server(new NaiveServer());
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&server->service_);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address));
  }
  const bool has_port = !absl::StartsWith(address, "unix:");
  server->address_ = has_port ? absl::StrCat("127.0.0.1:", port) : address;
  return server;
}

}  // namespace tensorkv::bench
