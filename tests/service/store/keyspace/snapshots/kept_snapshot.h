// Snapshots of a store that a test has, and may push to.

#ifndef TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_SNAPSHOTS_KEPT_SNAPSHOT_H_
#define TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_SNAPSHOTS_KEPT_SNAPSHOT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/alarms.h"
#include "base/answer.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/snapshot.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

// Keeps the snapshot. When a namespace begins, its cut has been made.
class KeptSnapshot final : public SnapshotSink {
 public:
  using OnBegin = std::function<absl::Status(const NamespaceSnapshot&)>;
  explicit KeptSnapshot(OnBegin on_begin = nullptr)
      : on_begin_(std::move(on_begin)) {}

  absl::Status Begin(NamespaceSnapshot name_space) override {
    namespaces.push_back(std::move(name_space));
    return on_begin_ ? on_begin_(namespaces.back()) : absl::OkStatus();
  }
  absl::Status Add(KeySnapshot key) override {
    keys.push_back(std::move(key));
    if (on_add) on_add();
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }
  void Paused(absl::Duration) override {}

  std::vector<NamespaceSnapshot> namespaces;
  std::vector<KeySnapshot> keys;
  std::function<void()> on_add;

 private:
  OnBegin on_begin_;
};

class SnapshotsTest : public ::testing::Test {
 protected:
  // More elements than an update computes on the caller's thread.
  static constexpr int64_t kMany = 1 << 19;

  ~SnapshotsTest() override { backend_.Release(); }

  void CreateNamespace(const std::string& name,
                       const NamespaceConfig& config = {}) {
    ASSERT_OK(MakeNow(store_, testing::CreateOf(name, config)));
  }
  void Init(const std::string& name_space, const std::string& key,
            int64_t num_elements = 4) {
    InitRequest request = {.name_space = name_space};
    request.entries.push_back({key, OnesOf(num_elements)});
    ASSERT_OK(InitNow(store_, std::move(request)));
  }
  void Replace(const std::string& name_space, const std::string& key,
               int64_t num_elements) {
    InitRequest request = {.name_space = name_space};
    request.on_existing = OnExisting::kReplace;
    request.entries.push_back({key, OnesOf(num_elements)});
    ASSERT_OK(InitNow(store_, std::move(request)));
  }
  void SetRule(const std::string& name_space, const std::string& rule,
               const std::string& pattern = "*") {
    ASSERT_OK(MakeNow(store_, SetRuleOf(rule, pattern, name_space)));
  }
  // Does not wait for the answer.
  void BeginPush(PushRequest request) {
    store_.Push(std::move(request), {}, [](absl::StatusOr<PushReply>) {});
  }
  // Has all of the first namespace of the snapshot.
  static void Fill(Restoration& restoration, const KeptSnapshot& snapshot) {
    ASSERT_OK(restoration.Begin(snapshot.namespaces[0]));
    ASSERT_OK(restoration.Add(snapshot.keys));
  }
  KeptSnapshot Taken(const std::string& name_space) {
    KeptSnapshot snapshot;
    EXPECT_OK(store_.TakeSnapshot({name_space}, snapshot));
    return snapshot;
  }
  // The version that a first push makes of "k" in a store that was restored.
  static Version PushAfterRestore(const KeptSnapshot& snapshot) {
    ScriptedBackend backend;
    SteadyAlarms alarms;
    MemoryTensorStore store({}, &backend, &alarms);
    const auto restoration = store.StartRestoration(OnExisting::kFail);
    Fill(*restoration, snapshot);
    EXPECT_OK(restoration->Commit());
    return NextVersion(store);
  }
  static Version NextVersion(MemoryTensorStore& store) {
    return PushTo(store, "k").Wait().value().results[0].version;
  }
  static Answer<absl::StatusOr<PushReply>> PushTo(MemoryTensorStore& store,
                                                  const std::string& key,
                                                  Step step = 0,
                                                  const Worker* by = nullptr) {
    PushRequest request = PushOf("n", key);
    request.step = step;
    if (by != nullptr) request.worker = *by;
    return PushTo(store, std::move(request));
  }
  static Answer<absl::StatusOr<PushReply>> PushTo(MemoryTensorStore& store,
                                                  PushRequest request) {
    const Answer<absl::StatusOr<PushReply>> answer;
    store.Push(std::move(request), {},
               [answer](absl::StatusOr<PushReply> reply) {
                 answer.Set(std::move(reply));
               });
    return answer;
  }
  void AwaitVersion(const std::string& name_space, const std::string& key,
                    Version version) {
    ASSERT_OK(PullOf(store_,
                     {.name_space = name_space, .entries = {{key, version}}}));
  }
  static absl::StatusOr<PullReply> PullOf(MemoryTensorStore& store,
                                          PullRequest request) {
    const Answer<absl::StatusOr<PullReply>> answer;
    store.Pull(std::move(request), {},
               [answer](absl::StatusOr<PullReply> reply) {
                 answer.Set(std::move(reply));
               });
    return answer.Wait();
  }
  static Tensor OnesOf(int64_t num_elements) {
    return *Tensor::Filled(DType::kF32, {num_elements}, 1);
  }
  static PushRequest PushOf(const std::string& name_space,
                            const std::string& key, int64_t num_elements = 4) {
    PushRequest request;
    request.name_space = name_space;
    request.entries.push_back({key, false, OnesOf(num_elements)});
    return request;
  }
  static PushRequest SyncPushOf(uint32_t rank, Step step,
                                const std::string& key, int64_t num_elements) {
    PushRequest request = PushOf("s", key, num_elements);
    request.worker = Worker{rank, 0};
    request.step = step;
    return request;
  }

  ScriptedBackend backend_;
  SteadyAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = 1 << 30}, &backend_, &alarms_};
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_SNAPSHOTS_KEPT_SNAPSHOT_H_
