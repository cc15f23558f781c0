#include "bench/gpu/push_suite.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "bench/data_path/peers/workload.h"
#include "bench/gpu/copy_watch.h"
#include "bench/harness/clocks.h"
#include "bench/harness/load.h"
#include "service/store/memory_tensor_store.h"

namespace tensorkv::bench::gpu {
namespace {

constexpr char kKey[] = "w";
constexpr uint64_t kNoBound = uint64_t{1} << 40;

// What MXNet's server took to update a key of 2 MB, on the CPU and without its
// transfer, as published; and what ours should take at most.
constexpr double kMxnetMicroseconds = 780;
constexpr double kGoalMicroseconds = 20;

enum class PushPart { kCopy, kUpdate, kPush };

// When the parts of a push began and ended.
struct PushTimes {
  absl::Duration called_at;
  CopyWatch::Times copy;
  absl::Duration replied_at;

  absl::Duration Took(PushPart part) const {
    switch (part) {
      case PushPart::kCopy:
        return copy.ended_at - copy.began_at;
      case PushPart::kUpdate:
        return replied_at - copy.ended_at;
      case PushPart::kPush:
        return replied_at - called_at;
    }
    return absl::ZeroDuration();
  }
};

// A store with one key. Not thread-safe.
class PushedKey {
 public:
  static absl::StatusOr<std::shared_ptr<PushedKey>> Create(Backend* backend,
                                                           int64_t bytes) {
    std::shared_ptr<PushedKey> key(new PushedKey(backend));
    RETURN_IF_ERROR(key->Stage(bytes));
    SetRuleRequest set_rule;
    set_rule.rule = RuleSpec{.name = "adam"};
    RETURN_IF_ERROR(key->store_.SetRule(set_rule));
    RETURN_IF_ERROR(key->Init());
    return key;
  }

  absl::StatusOr<PushTimes> Push() {
    PushRequest request;
    request.entries.push_back({kKey, /*skip=*/false, tensor_});
    Answer<Reply> answer;
    PushTimes times = {.called_at = SteadyTime()};
    store_.Push(std::move(request), CallContext(),
                [answer](absl::StatusOr<PushReply> reply) {
                  const absl::Duration now = SteadyTime();
                  answer.Set({now, std::move(reply)});
                });
    Reply reply = answer.Wait();
    RETURN_IF_ERROR(reply.push.status());
    RETURN_IF_ERROR(CheckVersion(reply.push->results.front().version));
    times.copy = watch_.last_copy();
    times.replied_at = reply.replied_at;
    return times;
  }

 private:
  struct Reply {
    absl::Duration replied_at;
    absl::StatusOr<PushReply> push;
  };

  explicit PushedKey(Backend* backend)
      : watch_(backend),
        store_({.budget_bytes = kNoBound, .device_budget_bytes = {kNoBound}},
               &watch_, &alarms_) {}

  // Gives what is pushed memory as a server has it.
  absl::Status Stage(int64_t bytes) {
    ASSIGN_OR_RETURN(const Tensor values, MakeValues(bytes));
    ASSIGN_OR_RETURN(tensor_,
                     Tensor::WithoutData(values.dtype(), values.shape()));
    Tensor* const tensors[] = {&tensor_};
    RETURN_IF_ERROR(store_.Allocate("", tensors));
    std::memcpy(tensor_.mutable_data(), values.data(), bytes);
    return absl::OkStatus();
  }

  absl::Status Init() {
    InitRequest request;
    request.entries.push_back({kKey, tensor_});
    Answer<absl::Status> answer;
    store_.Init(std::move(request), CallContext(),
                [answer](absl::StatusOr<InitReply> reply) {
                  answer.Set(reply.status());
                });
    return answer.Wait();
  }

  // Each push publishes the next version.
  absl::Status CheckVersion(Version version) {
    ++version_;
    if (version == version_) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("expected version ", version_, ", got ", version));
  }

  Version version_ = 1;
  SteadyAlarms alarms_;
  CopyWatch watch_;
  MemoryTensorStore store_;
  Tensor tensor_;
};

// Pushes one after the other, of which one part counts.
class PushLoad final : public Load {
 public:
  PushLoad(std::shared_ptr<PushedKey> key, int64_t bytes, PushPart part)
      : Load({.bytes_per_call = bytes}), key_(std::move(key)), part_(part) {}

  absl::Status Run(int64_t num_calls,
                   std::vector<absl::Duration>* latencies) override {
    for (int64_t i = 0; i < num_calls; ++i) {
      ASSIGN_OR_RETURN(const PushTimes times, key_->Push());
      latencies->push_back(times.Took(part_));
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<PushedKey> key_;
  const PushPart part_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Load>> PushLoadOf(Backend* backend,
                                                 int64_t bytes) {
  ASSIGN_OR_RETURN(std::shared_ptr<PushedKey> key,
                   PushedKey::Create(backend, bytes));
  return std::make_unique<PushLoad>(std::move(key), bytes, PushPart::kPush);
}

Section MeasurePush(Backend* backend, const Sizes& sizes, RowRunner* runner) {
  Section section = {.title = "One push in the store",
                     .unit = Unit::kMicroseconds};
  const int64_t bytes = sizes.pushed_bytes;
  const auto measure = [&](absl::string_view part_name, PushPart part,
                           std::vector<Reference> published) {
    const std::string name =
        absl::StrCat("push/", part_name, "/", ByteText(bytes));
    if (!runner->Wants(name)) return;
    for (const Reference& reference : published) {
      section.goals.push_back({.name = name,
                               .kind = Goal::Kind::kMedianTime,
                               .bound = kGoalMicroseconds / kMxnetMicroseconds,
                               .reference = reference.name});
    }
    absl::StatusOr<std::shared_ptr<PushedKey>> key =
        PushedKey::Create(backend, bytes);
    if (!key.ok()) return runner->LeaveOut(name, key.status(), &section);
    runner->Measure(
        {.name = name, .bytes = bytes, .references = std::move(published)},
        {"store", std::make_unique<PushLoad>(*std::move(key), bytes, part)}, {},
        &section);
  };
  measure("update", PushPart::kUpdate,
          {{"MXNet, published", {.p50_microseconds = kMxnetMicroseconds}}});
  measure("copy", PushPart::kCopy, {});
  measure("whole", PushPart::kPush, {});
  return section;
}

}  // namespace tensorkv::bench::gpu
