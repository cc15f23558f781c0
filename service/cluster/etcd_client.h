// Calls to etcd, version 3.

#ifndef TENSORKV_SERVICE_CLUSTER_ETCD_CLIENT_H_
#define TENSORKV_SERVICE_CLUSTER_ETCD_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "channels/channels.h"
#include "etcd.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv {

// Etcd makes calls to etcd, and blocks until they are answered. A call may come
// to etcd twice: callers make only calls that may. Confined to one thread.
//
// Errors of all calls: Unavailable and DeadlineExceeded if etcd does not
// answer · FailedPrecondition if it does not let the caller do so · others of
// etcd itself.
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
// one does not answer in time. Messages of errors name the server.
//
// With a user, calls carry a token, for which etcd was asked with the user's
// password. Tokens end: after some time, with changes of users and rights, or
// with the server that has given them. A call that is refused for its token is
// made once more, with another, within its timeout.
class EtcdClient final : public Etcd {
 public:
  struct Options {
    // "host:port" of each server; at least one.
    std::vector<std::string> endpoints;
    // How long each server may take for each call.
    absl::Duration timeout;
    // Who calls; the secret of the channels is its password. Empty: whom etcd
    // takes the certificate of the channels for, if it looks at any.
    std::string user;
    // The keys that calls are about begin with that; errors say so.
    std::string prefix;
  };

  // `channels` outlives this.
  EtcdClient(Options options, Channels* channels);

  absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const etcdserverpb::TxnRequest& request) override;
  absl::StatusOr<int64_t> GrantLease(absl::Duration duration) override;
  absl::Status RenewLease(int64_t lease) override;
  absl::Status RevokeLease(int64_t lease) override;

 private:
  struct Endpoint {
    std::string address;
    // The channel of the stubs; null before the first call.
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
    std::unique_ptr<etcdserverpb::Auth::Stub> auth;
  };
  using Call = absl::FunctionRef<grpc::Status(const Endpoint& endpoint,
                                              grpc::ClientContext* context)>;
  using Deadline = std::chrono::system_clock::time_point;

  // Makes the call at the current endpoint, and at the next where that one does
  // not answer.
  absl::Status Ask(Call call);
  // Makes the call at that endpoint, once more if it is refused for its token.
  absl::Status AskAt(Endpoint& endpoint, Call call);
  // Makes stubs of the channel that counts now.
  void Connect(Endpoint& endpoint);
  // Sets the token.
  absl::Status Authenticate(const Endpoint& endpoint, Deadline deadline);
  // Returns the error of a call that etcd has not let the caller make.
  absl::Status Refused(const Endpoint& endpoint,
                       const grpc::Status& status) const;

  const Options options_;
  Channels& channels_;
  std::vector<Endpoint> endpoints_;
  size_t current_ = 0;  // the one that answered last
  std::string token_;   // empty: none yet, or etcd knows it no more
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_ETCD_CLIENT_H_
