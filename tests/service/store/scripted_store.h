// A store in memory whose backend and time the test moves.

#ifndef TENSORKV_TESTS_SERVICE_STORE_SCRIPTED_STORE_H_
#define TENSORKV_TESTS_SERVICE_STORE_SCRIPTED_STORE_H_

#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

// Where an answer arrives. Outlives the call.
template <typename Reply>
struct Inbox {
  std::optional<absl::StatusOr<Reply>> answer;
  Notification arrived;

  ReplyCallback<Reply> Callback() {
    return [this](absl::StatusOr<Reply> reply) {
      answer = std::move(reply);
      arrived.Notify();
    };
  }
  bool is_empty() { return !arrived.HasBeenNotified(); }
  const absl::StatusOr<Reply>& Wait() {
    arrived.WaitForNotification();
    return *answer;
  }
};

inline Tensor Filled(double value, Shape shape = {4}) {
  return *Tensor::Filled(DType::kF32, std::move(shape), value);
}

inline float First(const Value& value) {
  return value.tensor.elements<float>()[0];
}
inline float First(const PullReply& reply) { return First(reply.values[0]); }

class ScriptedStoreTest : public ::testing::Test {
 protected:
  ~ScriptedStoreTest() override { backend_.Release(); }

  absl::Status Init(const std::string& key, double value,
                    OnExisting on_existing = OnExisting::kFail) {
    InitRequest request;
    request.on_existing = on_existing;
    request.entries.push_back({key, Filled(value)});
    return InitNow(store_, std::move(request)).status();
  }

  static PushRequest PushOf(const std::string& key, double value) {
    PushRequest request;
    request.entries.push_back({key, false, Filled(value)});
    return request;
  }
  PushRequest SyncPush(uint32_t rank, Step step, double value) {
    PushRequest request = PushOf("w", value);
    request.name_space = "sync";
    request.worker = Worker{rank, 0};
    request.step = step;
    return request;
  }
  static PullRequest PullOf(const std::string& key, Version min_version = 0) {
    PullRequest request;
    request.entries.push_back({key, min_version});
    return request;
  }
  PullRequest SyncPull(uint32_t rank) {
    PullRequest request = PullOf("w");
    request.name_space = "sync";
    request.worker = Worker{rank, 0};
    return request;
  }

  absl::StatusOr<PushReply> Push(PushRequest request) {
    Inbox<PushReply> inbox;
    store_.Push(std::move(request), {}, inbox.Callback());
    if (inbox.is_empty()) return absl::InternalError("no answer yet");
    return *std::move(inbox.answer);
  }
  absl::StatusOr<Value> Pull(PullRequest request) {
    Inbox<PullReply> inbox;
    store_.Pull(std::move(request), {}, inbox.Callback());
    if (inbox.is_empty()) return absl::InternalError("no answer yet");
    if (!inbox.answer->ok()) return inbox.answer->status();
    return (*inbox.answer)->values[0];
  }

  void CreateSyncNamespace(uint32_t num_workers,
                           SumOrder sum_order = SumOrder::kRank) {
    ASSERT_OK(MakeNow(store_, CreateOf("sync", {.mode = Mode::kSync,
                                                .num_workers = num_workers,
                                                .sum_order = sum_order})));
    InitRequest init;
    init.name_space = "sync";
    init.entries.push_back({"w", Filled(0)});
    ASSERT_OK(InitNow(store_, std::move(init)));
  }

  ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_{
      {.budget_bytes = 1 << 20, .max_wait = absl::Minutes(5)},
      &backend_,
      &alarms_};
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_SCRIPTED_STORE_H_
