#include "client/internal/calls/metered_connection.h"

#include <cstdint>
#include <utility>

namespace tensorkv {
namespace {

template <typename Holders>
int64_t TensorBytes(const Holders& holders) {
  int64_t bytes = 0;
  for (const auto& holder : holders) bytes += holder.tensor.size_bytes();
  return bytes;
}

int64_t BytesSent(const AnyCall& call, const CallOptions& options) {
  return call.Visit([&](const auto& request, const auto&) -> int64_t {
    if constexpr (requires { request.entries.front().tensor; }) {
      int64_t bytes = TensorBytes(request.entries);
      for (size_t i = 0; i < options.casts.size(); ++i) {
        if (options.casts[i].dtype == DType::kUnknown) continue;
        const Tensor& tensor = request.entries[i].tensor;
        bytes += tensor.num_elements() * SizeOf(options.casts[i].dtype) -
                 tensor.size_bytes();
      }
      return bytes;
    }
    return 0;
  });
}

int64_t BytesReceived(const AnyCall& call) {
  return call.Visit([](const auto&, const auto& reply) -> int64_t {
    if constexpr (requires { reply.values; }) return TensorBytes(reply.values);
    return 0;
  });
}

}  // namespace

MeteredConnection::MeteredConnection(std::unique_ptr<Connection> inner,
                                     std::shared_ptr<ClientObserver> observer,
                                     std::function<absl::Duration()> now)
    : inner_(std::move(inner)),
      now_(std::move(now)),
      observer_(std::move(observer)) {}

Task<absl::Status> MeteredConnection::Make(AnyCall call, CallOptions options,
                                           CallThreads* threads) {
  observer_->OnStarted(call.method(), BytesSent(call, options));
  const absl::Duration start = now_();
  absl::Status status = co_await MadeCall(*inner_, call, options, threads);
  observer_->OnEnded(call.method(), status.code(), now_() - start,
                     status.ok() ? BytesReceived(call) : 0);
  co_return status;
}

}  // namespace tensorkv
