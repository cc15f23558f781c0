#include "service/metrics/metered_tensor_store.h"

#include <utility>

#include "absl/time/time.h"
#include "base/histogram_buckets.h"

namespace tensorkv {
namespace {

// Indices of ReplyMetrics::wait_seconds.
enum Outcome : size_t { kAnswered, kExpired, kCancelled, kFailed };
constexpr const char* kOutcomeNames[] = {"answered", "expired", "cancelled",
                                         "failed"};

Outcome OutcomeOf(const absl::Status& status) {
  if (status.ok()) return kAnswered;
  if (absl::IsDeadlineExceeded(status)) return kExpired;
  if (absl::IsCancelled(status)) return kCancelled;
  return kFailed;
}

prometheus::Counter& AddReceivedBytes(prometheus::Registry* registry,
                                      const char* method) {
  return prometheus::BuildCounter()
      .Name("tensorkv_received_bytes_total")
      .Help("Bytes of tensors in calls.")
      .Register(*registry)
      .Add({{"method", method}});
}

// Sums over entries or values, which have a tensor each.
template <typename Items>
double TensorBytes(const Items& items) {
  int64_t bytes = 0;
  for (const auto& item : items) bytes += item.tensor.size_bytes();
  return static_cast<double>(bytes);
}

}  // namespace

MeteredTensorStore::MeteredTensorStore(TensorStore* inner, const Alarms* clock,
                                       prometheus::Registry* registry)
    : inner_(*inner),
      clock_(*clock),
      init_bytes_(AddReceivedBytes(registry, "Init")),
      push_bytes_(AddReceivedBytes(registry, "Push")),
      push_pull_bytes_(AddReceivedBytes(registry, "PushPull")),
      pull_(AddReplyMetrics(registry, "Pull")),
      push_pull_(AddReplyMetrics(registry, "PushPull")) {}

MeteredTensorStore::ReplyMetrics MeteredTensorStore::AddReplyMetrics(
    prometheus::Registry* registry, const char* method) {
  static_assert(std::size(kOutcomeNames) == kNumOutcomes);
  ReplyMetrics metrics;
  metrics.sent_bytes = &prometheus::BuildCounter()
                            .Name("tensorkv_sent_bytes_total")
                            .Help("Bytes of tensors in replies.")
                            .Register(*registry)
                            .Add({{"method", method}});
  auto& family = prometheus::BuildHistogram()
                     .Name("tensorkv_wait_seconds")
                     .Help("Time from a call's arrival to its values.")
                     .Register(*registry);
  for (size_t i = 0; i < kNumOutcomes; ++i) {
    metrics.wait_seconds[i] =
        &family.Add({{"method", method}, {"outcome", kOutcomeNames[i]}},
                    kLatencyBucketsSeconds);
  }
  return metrics;
}

ReplyCallback<PullReply> MeteredTensorStore::Measured(
    const ReplyMetrics& metrics, ReplyCallback<PullReply> done) const {
  return [this, &metrics, start = clock_.Now(),
          done = std::move(done)](absl::StatusOr<PullReply> reply) mutable {
    metrics.wait_seconds[OutcomeOf(reply.status())]->Observe(
        absl::ToDoubleSeconds(clock_.Now() - start));
    if (reply.ok()) metrics.sent_bytes->Increment(TensorBytes(reply->values));
    std::move(done)(std::move(reply));
  };
}

void MeteredTensorStore::Init(InitRequest request, CallContext context,
                              ReplyCallback<InitReply> done) {
  init_bytes_.Increment(TensorBytes(request.entries));
  inner_.Init(std::move(request), std::move(context), std::move(done));
}

void MeteredTensorStore::Push(PushRequest request, CallContext context,
                              ReplyCallback<PushReply> done) {
  push_bytes_.Increment(TensorBytes(request.entries));
  inner_.Push(std::move(request), std::move(context), std::move(done));
}

void MeteredTensorStore::Pull(PullRequest request, CallContext context,
                              ReplyCallback<PullReply> done) {
  inner_.Pull(std::move(request), std::move(context),
              Measured(pull_, std::move(done)));
}

void MeteredTensorStore::PushPull(PushRequest request, CallContext context,
                                  ReplyCallback<PullReply> done) {
  push_pull_bytes_.Increment(TensorBytes(request.entries));
  inner_.PushPull(std::move(request), std::move(context),
                  Measured(push_pull_, std::move(done)));
}

absl::StatusOr<DeleteReply> MeteredTensorStore::Delete(
    DeleteRequest request, const CallContext& context) {
  return inner_.Delete(std::move(request), context);
}

absl::StatusOr<ListReply> MeteredTensorStore::List(const ListRequest& request,
                                                   const CallContext& context) {
  return inner_.List(request, context);
}

absl::StatusOr<StatReply> MeteredTensorStore::Stat(const StatRequest& request,
                                                   const CallContext& context) {
  return inner_.Stat(request, context);
}

}  // namespace tensorkv
