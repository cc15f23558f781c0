#include "service/cluster/etcd_client.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Metadata in which etcd looks for a token.
constexpr char kToken[] = "token";

bool AsksTheNext(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// The codes of both have the same numbers.
absl::Status StatusOf(const std::string& address, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      absl::StrCat("etcd ", address, ": ", status.error_message()));
}

// Returns whether etcd says by INVALID_ARGUMENT, as it does of much else, that
// `what` is wrong with the caller.
bool SaysOfCaller(const grpc::Status& status, absl::string_view what) {
  return status.error_code() == grpc::StatusCode::INVALID_ARGUMENT &&
         absl::StrContains(status.error_message(), what);
}

// Returns whether the call would be taken with a newer token. A JSON web token
// counts no more after any change of users, roles and rights.
bool NeedsNewToken(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         SaysOfCaller(status, "revision of auth store is old");
}

// Returns whether etcd may take the call of another caller.
bool RefusesCaller(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
         NeedsNewToken(status) || SaysOfCaller(status, "user name is empty");
}

// Returns whether etcd has looked at user and password, and gives no token.
bool GivesNoToken(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:     // a wrong password
    case grpc::StatusCode::FAILED_PRECONDITION:  // it asks nobody for one
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return true;
    default:
      return false;
  }
}

}  // namespace

EtcdClient::EtcdClient(Options options, Channels* channels)
    : options_(std::move(options)), channels_(*channels) {
  for (const std::string& address : options_.endpoints) {
    endpoints_.emplace_back().address = address;
  }
}

absl::Status EtcdClient::Ask(Call call) {
  absl::Status status;
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    status = AskAt(endpoints_[current_], call);
    if (!AsksTheNext(status)) break;
    current_ = (current_ + 1) % endpoints_.size();
  }
  return status;
}

absl::Status EtcdClient::AskAt(Endpoint& endpoint, Call call) {
  Connect(endpoint);
  const Deadline deadline = absl::ToChronoTime(absl::Now() + options_.timeout);
  grpc::Status answer;
  for (const bool is_last : {false, true}) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    if (!options_.user.empty()) {
      if (token_.empty()) RETURN_IF_ERROR(Authenticate(endpoint, deadline));
      context.AddMetadata(kToken, token_);
    }
    answer = call(endpoint, &context);
    if (is_last || !NeedsNewToken(answer)) break;
    token_.clear();
  }
  return RefusesCaller(answer) ? Refused(endpoint, answer)
                               : StatusOf(endpoint.address, answer);
}

void EtcdClient::Connect(Endpoint& endpoint) {
  std::shared_ptr<grpc::Channel> channel =
      channels_.ChannelTo(endpoint.address);
  if (channel == endpoint.channel) return;
  endpoint.kv = etcdserverpb::KV::NewStub(channel);
  endpoint.lease = etcdserverpb::Lease::NewStub(channel);
  endpoint.auth = etcdserverpb::Auth::NewStub(channel);
  endpoint.channel = std::move(channel);
}

absl::Status EtcdClient::Authenticate(const Endpoint& endpoint,
                                      Deadline deadline) {
  etcdserverpb::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(channels_.credentials().secret());
  grpc::ClientContext context;
  context.set_deadline(deadline);
  etcdserverpb::AuthenticateResponse response;
  const grpc::Status answer =
      endpoint.auth->Authenticate(&context, request, &response);
  if (GivesNoToken(answer)) {
    return absl::FailedPreconditionError(
        absl::StrCat("etcd ", endpoint.address, ": expected a token for user ",
                     Quoted(options_.user),
                     " and the password in etcd_password_file, got \"",
                     answer.error_message(), "\""));
  }
  RETURN_IF_ERROR(StatusOf(endpoint.address, answer));
  token_ = response.token();
  return absl::OkStatus();
}

absl::Status EtcdClient::Refused(const Endpoint& endpoint,
                                 const grpc::Status& status) const {
  const std::string caller =
      options_.user.empty() ? "an etcd_user, or the name in the etcd_tls_cert,"
                            : absl::StrCat("user ", Quoted(options_.user));
  return absl::FailedPreconditionError(
      absl::StrCat("etcd ", endpoint.address, ": expected ", caller,
                   " to have a role that reads and writes what begins with ",
                   options_.prefix, ", got \"", status.error_message(), "\""));
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
