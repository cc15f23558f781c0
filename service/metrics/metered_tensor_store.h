// Measures what only a store sees of its calls.

#ifndef TENSORKV_SERVICE_METRICS_METERED_TENSOR_STORE_H_
#define TENSORKV_SERVICE_METRICS_METERED_TENSOR_STORE_H_

#include <array>
#include <vector>

#include "base/alarms.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// A TensorStore that passes everything on and measures. Thread-safe.
//
//   tensorkv_received_bytes_total  bytes of tensors in calls, by method
//   tensorkv_sent_bytes_total      bytes of tensors in replies, by method
//   tensorkv_wait_seconds          time from a call's arrival to its values,
//                                  by method and outcome: answered, expired,
//                                  cancelled, failed
class MeteredTensorStore final : public TensorStore {
 public:
  // All outlive this object and every call on it.
  MeteredTensorStore(TensorStore* inner, const Alarms* clock,
                     prometheus::Registry* registry);

  void Init(InitRequest request, CallContext context,
            ReplyCallback<InitReply> done) override;
  void Push(PushRequest request, CallContext context,
            ReplyCallback<PushReply> done) override;
  void Pull(PullRequest request, CallContext context,
            ReplyCallback<PullReply> done) override;
  void PushPull(PushRequest request, CallContext context,
                ReplyCallback<PullReply> done) override;
  absl::StatusOr<DeleteReply> Delete(DeleteRequest request,
                                     const CallContext& context) override;
  absl::StatusOr<ListReply> List(const ListRequest& request,
                                 const CallContext& context) override;
  absl::StatusOr<StatReply> Stat(const StatRequest& request,
                                 const CallContext& context) override;

 private:
  static constexpr size_t kNumOutcomes = 4;

  // ReplyMetrics are those that a method that answers with values has besides.
  struct ReplyMetrics {
    prometheus::Counter* sent_bytes = nullptr;
    std::array<prometheus::Histogram*, kNumOutcomes> wait_seconds = {};
  };

  static ReplyMetrics AddReplyMetrics(prometheus::Registry* registry,
                                      const char* method);
  // Measures until `done`, then calls it.
  ReplyCallback<PullReply> Measured(const ReplyMetrics& metrics,
                                    ReplyCallback<PullReply> done) const;

  TensorStore& inner_;
  const Alarms& clock_;
  prometheus::Counter& init_bytes_;
  prometheus::Counter& push_bytes_;
  prometheus::Counter& push_pull_bytes_;
  const ReplyMetrics pull_;
  const ReplyMetrics push_pull_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_METRICS_METERED_TENSOR_STORE_H_
