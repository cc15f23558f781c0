#include "client/internal/retrying_connection.h"

#include <algorithm>

namespace tensorkv {
namespace {

// Well within the 15 minutes for which servers remember a call.
constexpr absl::Duration kLongestRepetition = absl::Minutes(10);

}  // namespace

template <typename Call>
std::invoke_result_t<Call, const CallOptions&> RetryingConnection::Retry(
    const CallOptions& options, Call call) {
  const absl::Duration limit = std::min(options.timeout, kLongestRepetition);
  return RetryLoop(backoff_, environment_, limit,
                   [&](absl::Duration time_left) {
                     CallOptions attempt_options = options;
                     attempt_options.timeout -= limit - time_left;
                     return call(attempt_options);
                   });
}

absl::StatusOr<InitReply> RetryingConnection::Init(const InitRequest& request,
                                                   const CallOptions& options) {
  if (!request.call_id && request.on_existing != OnExisting::kKeep) {
    return inner_->Init(request, options);
  }
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->Init(request, attempt);
  });
}

absl::StatusOr<PushReply> RetryingConnection::Push(const PushRequest& request,
                                                   const CallOptions& options) {
  if (!request.call_id) return inner_->Push(request, options);
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->Push(request, attempt);
  });
}

absl::StatusOr<PullReply> RetryingConnection::Pull(const PullRequest& request,
                                                   const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->Pull(request, attempt);
  });
}

absl::StatusOr<PullReply> RetryingConnection::PushPull(
    const PushRequest& request, const CallOptions& options) {
  if (!request.call_id) return inner_->PushPull(request, options);
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->PushPull(request, attempt);
  });
}

absl::StatusOr<DeleteReply> RetryingConnection::Delete(
    const DeleteRequest& request, const CallOptions& options) {
  if (!request.call_id && !request.allow_missing) {
    return inner_->Delete(request, options);
  }
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->Delete(request, attempt);
  });
}

absl::StatusOr<ListReply> RetryingConnection::List(const ListRequest& request,
                                                   const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->List(request, attempt);
  });
}

absl::StatusOr<StatReply> RetryingConnection::Stat(const StatRequest& request,
                                                   const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->Stat(request, attempt);
  });
}

absl::StatusOr<CreateNamespaceReply> RetryingConnection::CreateNamespace(
    const CreateNamespaceRequest& request, const CallOptions& options) {
  if (!request.call_id && request.on_existing != OnExisting::kKeep) {
    return inner_->CreateNamespace(request, options);
  }
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->CreateNamespace(request, attempt);
  });
}

absl::StatusOr<NamespaceStatus> RetryingConnection::DescribeNamespace(
    const std::string& name_space, const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->DescribeNamespace(name_space, attempt);
  });
}

absl::StatusOr<std::vector<NamespaceStatus>> RetryingConnection::ListNamespaces(
    const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->ListNamespaces(attempt);
  });
}

absl::Status RetryingConnection::DeleteNamespace(const std::string& name_space,
                                                 const CallOptions& options) {
  return inner_->DeleteNamespace(name_space, options);
}

absl::Status RetryingConnection::SetRule(const SetRuleRequest& request,
                                         const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->SetRule(request, attempt);
  });
}

absl::Status RetryingConnection::UnsetRule(const UnsetRuleRequest& request,
                                           const CallOptions& options) {
  if (!request.call_id) return inner_->UnsetRule(request, options);
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->UnsetRule(request, attempt);
  });
}

absl::StatusOr<RuleSpec> RetryingConnection::SetHyperparameters(
    const SetHyperparametersRequest& request, const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->SetHyperparameters(request, attempt);
  });
}

absl::StatusOr<JoinReply> RetryingConnection::Join(const JoinRequest& request,
                                                   const CallOptions& options) {
  if (!request.call_id) return inner_->Join(request, options);
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->Join(request, attempt);
  });
}

absl::StatusOr<KeepAliveReply> RetryingConnection::KeepAlive(
    const KeepAliveRequest& request, const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->KeepAlive(request, attempt);
  });
}

absl::Status RetryingConnection::Leave(const LeaveRequest& request,
                                       const CallOptions& options) {
  if (!request.call_id) return inner_->Leave(request, options);
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->Leave(request, attempt);
  });
}

absl::Status RetryingConnection::Barrier(const BarrierRequest& request,
                                         const CallOptions& options) {
  if (!request.call_id) return inner_->Barrier(request, options);
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->Barrier(request, attempt);
  });
}

absl::StatusOr<ServerStatus> RetryingConnection::DescribeServer(
    const CallOptions& options) {
  return Retry(options, [&](const CallOptions& attempt) {
    return inner_->DescribeServer(attempt);
  });
}

}  // namespace tensorkv
