#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "base/status_macros.h"
#include "bench/data_path/workload.h"
#include "bench/gpu/copy_watch.h"
#include "bench/gpu/rows.h"
#include "bench/harness/clocks.h"
#include "service/store/memory_tensor_store.h"

namespace tensorkv::bench::gpu {
namespace push_rows {

constexpr char kKey[] = "w";
constexpr uint64_t kNoBound = uint64_t{1} << 40;

enum class PushPart { kCopy, kUpdate, kWhole };

// A store with one key, and when the parts of its last push began and ended.
class PushedKey {
 public:
  static absl::StatusOr<std::shared_ptr<PushedKey>> Create(Backend* backend,
                                                           int64_t bytes) {
    std::shared_ptr<PushedKey> key(new PushedKey(backend));
    RETURN_IF_ERROR(key->Stage(bytes));
    SetRuleRequest set_rule;
    set_rule.mutable_rule()->set_name("adam");
    const auto set = Await<SetRuleReply>([&](ReplyCallback<SetRuleReply> done) {
      key->store_.SetRule(set_rule, {}, std::move(done));
    });
    RETURN_IF_ERROR(set.status());
    RETURN_IF_ERROR(key->Init());
    return key;
  }

  absl::Status Push() {
    PushRequest request;
    request.entries.push_back({kKey, /*skip=*/false, tensor_});
    Answer<Reply> answer;
    called_at_ = SteadyTime();
    store_.Push(std::move(request), CallContext(),
                [answer](absl::StatusOr<PushReply> reply) {
                  const absl::Duration now = SteadyTime();
                  answer.Set({now, std::move(reply)});
                });
    const Reply reply = answer.Wait();
    RETURN_IF_ERROR(reply.push.status());
    replied_at_ = reply.replied_at;
    copy_ = watch_.last_copy();
    return CheckVersion(reply.push->results.front().version);
  }

  absl::Duration Took(PushPart part) const {
    if (part == PushPart::kCopy) return copy_.ended_at - copy_.began_at;
    return replied_at_ -
           (part == PushPart::kUpdate ? copy_.ended_at : called_at_);
  }

 private:
  struct Reply {
    absl::Duration replied_at;
    absl::StatusOr<PushReply> push;
  };

  explicit PushedKey(Backend* backend)
      : watch_(backend),
        store_({.budget_bytes = kNoBound, .device_budget_bytes = kNoBound},
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
  absl::Duration called_at_;
  absl::Duration replied_at_;
  CopyWatch::Times copy_;
  SteadyAlarms alarms_;
  CopyWatch watch_;
  MemoryTensorStore store_;
  Tensor tensor_;
};

// Pushes one after the other, of which one part counts.
absl::StatusOr<Load> LoadOf(Backend* backend, int64_t bytes, PushPart part) {
  ASSIGN_OR_RETURN(const auto key, PushedKey::Create(backend, bytes));
  return Load{.call = [=] { return key->Push(); },
              .bytes = bytes,
              .took = [=] { return key->Took(part); }};
}

}  // namespace push_rows

absl::StatusOr<Load> PushLoad(Backend* backend, int64_t bytes) {
  return push_rows::LoadOf(backend, bytes, push_rows::PushPart::kWhole);
}

std::vector<Row> PushRows(Backend* backend, const Sizes& sizes) {
  using push_rows::PushPart;
  const int64_t bytes = sizes.pushed_bytes;
  const auto row = [&](const char* name, PushPart part, absl::Duration most) {
    return Row{
        .name = absl::StrCat("push/", name, "/", ByteText(bytes)),
        .make_load = [=] { return push_rows::LoadOf(backend, bytes, part); },
        .most_time = most};
  };
  return {row("update", PushPart::kUpdate, absl::Microseconds(20)),
          row("copy", PushPart::kCopy, absl::InfiniteDuration()),
          row("whole", PushPart::kWhole, absl::InfiniteDuration())};
}

}  // namespace tensorkv::bench::gpu
