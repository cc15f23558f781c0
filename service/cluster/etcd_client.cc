#include "service/cluster/etcd_client.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// One that is back is found at the next attempt, not minutes later.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

bool AsksTheNext(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// The codes of both have the same numbers.
absl::Status StatusOf(const std::string& address, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      absl::StrCat("etcd ", address, ": ", status.error_message()));
}

}  // namespace

EtcdClient::EtcdClient(const std::vector<std::string>& endpoints,
                       absl::Duration timeout)
    : timeout_(timeout) {
  for (const std::string& address : endpoints) {
    const std::shared_ptr<grpc::Channel> channel = ChannelTo(address);
    endpoints_.push_back({.address = address,
                          .kv = etcdserverpb::KV::NewStub(channel),
                          .lease = etcdserverpb::Lease::NewStub(channel)});
  }
}

absl::Status EtcdClient::Ask(Call call) {
  absl::Status status;
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    const Endpoint& endpoint = endpoints_[current_];
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
    const grpc::Status answer = call(endpoint, &context);
    status = StatusOf(endpoint.address, answer);
    if (!AsksTheNext(answer)) break;
    current_ = (current_ + 1) % endpoints_.size();
  }
  return status;
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdClient::Txn(
    const etcdserverpb::TxnRequest& request) {
  etcdserverpb::TxnResponse response;
  RETURN_IF_ERROR(
      Ask([&](const Endpoint& endpoint, grpc::ClientContext* context) {
        return endpoint.kv->Txn(context, request, &response);
      }));
  return response;
}

absl::StatusOr<int64_t> EtcdClient::GrantLease(absl::Duration duration) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(duration));
  etcdserverpb::LeaseGrantResponse response;
  RETURN_IF_ERROR(
      Ask([&](const Endpoint& endpoint, grpc::ClientContext* context) {
        return endpoint.lease->LeaseGrant(context, request, &response);
      }));
  return response.id();
}

absl::Status EtcdClient::RenewLease(int64_t lease) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(
      Ask([&](const Endpoint& endpoint, grpc::ClientContext* context) {
        const auto stream = endpoint.lease->LeaseKeepAlive(context);
        stream->Write(request);
        stream->WritesDone();
        // The stream's own status says only how it ended, not whether there
        // was an answer.
        const bool is_answered = stream->Read(&response);
        if (is_answered) context->TryCancel();
        const grpc::Status status = stream->Finish();
        if (is_answered) return grpc::Status::OK;
        if (!status.ok()) return status;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                            "the stream ended without an answer");
      }));
  if (response.ttl() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("lease ", lease, " is over"));
}

absl::Status EtcdClient::RevokeLease(int64_t lease) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse response;
  return Ask([&](const Endpoint& endpoint, grpc::ClientContext* context) {
    return endpoint.lease->LeaseRevoke(context, request, &response);
  });
}

}  // namespace tensorkv
