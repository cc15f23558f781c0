// Calls to etcd, version 3.

#ifndef TENSORKV_SERVICE_CLUSTER_ETCD_CLIENT_H_
#define TENSORKV_SERVICE_CLUSTER_ETCD_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "etcd.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv {

// Etcd makes calls to etcd, and blocks until they are answered. A call may come
// to etcd twice: callers make only calls that may. Confined to one thread.
//
// Errors of all calls: Unavailable and DeadlineExceeded if etcd does not
// answer, and those of etcd itself.
class Etcd {
 public:
  virtual ~Etcd() = default;

  virtual absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const etcdserverpb::TxnRequest& request) = 0;

  // Returns the id of a new lease of `duration`, in whole seconds; etcd removes
  // the lease's keys when it was not renewed for that long. Where the call
  // comes twice, the lease that nobody knows ends by itself.
  virtual absl::StatusOr<int64_t> GrantLease(absl::Duration duration) = 0;
  // Errors: NotFound: the lease is over.
  virtual absl::Status RenewLease(int64_t lease) = 0;
  // Ends the lease, and removes its keys.
  virtual absl::Status RevokeLease(int64_t lease) = 0;
};

// Asks the etcd server that answered last, and the next one, each once, where
// one does not answer in time. In plain text. Messages of errors name the
// server.
class EtcdClient final : public Etcd {
 public:
  // `timeout` is that of each server in each call. REQUIRES: at least one
  // endpoint, "host:port".
  EtcdClient(const std::vector<std::string>& endpoints, absl::Duration timeout);

  absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const etcdserverpb::TxnRequest& request) override;
  absl::StatusOr<int64_t> GrantLease(absl::Duration duration) override;
  absl::Status RenewLease(int64_t lease) override;
  absl::Status RevokeLease(int64_t lease) override;

 private:
  struct Endpoint {
    std::string address;
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
  };
  using Call = absl::FunctionRef<grpc::Status(const Endpoint& endpoint,
                                              grpc::ClientContext* context)>;

  // Makes the call at the current endpoint, and at the next where that one does
  // not answer.
  absl::Status Ask(Call call);

  const absl::Duration timeout_;
  std::vector<Endpoint> endpoints_;
  size_t current_ = 0;  // the one that answered last
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_ETCD_CLIENT_H_
