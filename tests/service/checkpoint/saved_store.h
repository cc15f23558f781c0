// A store with checkpoints, for tests of what becomes of it.

#ifndef TENSORKV_TESTS_SERVICE_CHECKPOINT_SAVED_STORE_H_
#define TENSORKV_TESTS_SERVICE_CHECKPOINT_SAVED_STORE_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/checkpoint/checkpoints.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

// A store and its checkpoints, as a server has them.
class SavedStore {
 public:
  static constexpr uint64_t kBudgetBytes = 64 << 20;

  explicit SavedStore(const std::string& directory, uint32_t keep = 3,
                      bool fallback = false,
                      std::function<void(const std::string&)> log = nullptr,
                      uint32_t full_every = 1)
      : checkpoints_(*Checkpoints::Create({.directory = directory,
                                           .keep = keep,
                                           .full_every = full_every,
                                           .incarnation = 1,
                                           .fallback = fallback,
                                           .log = std::move(log)},
                                          &store_)) {}

  MemoryTensorStore& store() { return store_; }
  Checkpoints& checkpoints() { return *checkpoints_; }

  absl::Status Init(const std::string& name_space, const std::string& key,
                    Tensor value) {
    InitRequest request;
    request.name_space = name_space;
    request.entries.push_back({key, std::move(value)});
    return Init(std::move(request));
  }
  absl::Status Init(InitRequest request) {
    return Ask<InitReply>(&MemoryTensorStore::Init, std::move(request), {})
        .status();
  }
  absl::StatusOr<PushReply> Push(PushRequest request,
                                 CallContext context = {}) {
    return Ask<PushReply>(&MemoryTensorStore::Push, std::move(request),
                          std::move(context));
  }
  Value Pull(const std::string& name_space, const std::string& key) {
    PullRequest request;
    request.name_space = name_space;
    request.entries.push_back({.key = key});
    return Ask<PullReply>(&MemoryTensorStore::Pull, std::move(request), {})
        ->values[0];
  }
  absl::Status SetState(const std::string& name_space, const std::string& key,
                        const std::string& state, Tensor tensor) {
    SetStateRequest request;
    request.name_space = name_space;
    request.entries.push_back({key, state, std::move(tensor)});
    return Ask<SetStateReply>(&MemoryTensorStore::SetState, std::move(request),
                              {})
        .status();
  }
  Value GetState(const std::string& name_space, const std::string& key,
                 const std::string& state) {
    GetStateRequest request;
    request.name_space = name_space;
    request.entries.push_back({key, state});
    return Ask<GetStateReply>(&MemoryTensorStore::GetState, std::move(request),
                              {})
        ->values[0];
  }
  KeyStatus Stat(const std::string& name_space, const std::string& key) {
    return MakeNow(store_, testing::StatOf({key}, name_space))->keys(0);
  }

 private:
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Ask(void (MemoryTensorStore::*verb)(
                                Request, CallContext, ReplyCallback<Reply>),
                            Request request, CallContext context) {
    const Answer<absl::StatusOr<Reply>> answer;
    (store_.*verb)(std::move(request), std::move(context),
                   [answer](absl::StatusOr<Reply> reply) {
                     answer.Set(std::move(reply));
                   });
    return answer.Wait();
  }

  CpuBackend backend_{2};
  SteadyAlarms alarms_;
  MemoryTensorStore store_{{.budget_bytes = kBudgetBytes}, &backend_, &alarms_};
  const std::unique_ptr<Checkpoints> checkpoints_;
};

// The calls about one checkpoint.
inline absl::StatusOr<CheckpointStatus> SaveAs(
    Checkpoints& checkpoints, const std::string& name,
    const std::vector<std::string>& namespaces = {}) {
  SaveCheckpointRequest request;
  request.set_name(name);
  request.mutable_namespaces()->Add(namespaces.begin(), namespaces.end());
  const auto reply = checkpoints.SaveCheckpoint(request, {});
  if (!reply.ok()) return reply.status();
  return reply->checkpoint();
}
inline absl::Status Verify(Checkpoints& checkpoints, const std::string& name,
                           const CallContext& context = {}) {
  VerifyCheckpointRequest request;
  request.set_name(name);
  return checkpoints.VerifyCheckpoint(request, context).status();
}
inline absl::Status Remove(Checkpoints& checkpoints, const std::string& name) {
  DeleteCheckpointRequest request;
  request.set_name(name);
  return checkpoints.DeleteCheckpoint(request, {});
}
inline RestoreCheckpointRequest RestoreOf(
    const std::string& name, const std::vector<std::string>& namespaces = {},
    const std::string& as_namespace = "",
    v1::OnExisting on_existing = v1::ON_EXISTING_FAIL, uint64_t uid = 0) {
  RestoreCheckpointRequest request;
  request.set_name(name);
  request.mutable_namespaces()->Add(namespaces.begin(), namespaces.end());
  request.set_as_namespace(as_namespace);
  request.set_on_existing(on_existing);
  request.set_uid(uid);
  return request;
}

inline Tensor Filled(DType dtype, double value, Shape shape = {3, 5}) {
  return *Tensor::Filled(dtype, std::move(shape), value);
}

inline PushRequest PushOf(const std::string& name_space, const std::string& key,
                          Tensor tensor) {
  PushRequest request;
  request.name_space = name_space;
  request.entries.push_back({key, false, std::move(tensor)});
  return request;
}

inline std::string BytesOf(const Value& value) {
  return {value.tensor.data(), static_cast<size_t>(value.tensor.size_bytes())};
}

// Changes a bit of the byte at that place, from the end if it is negative; once
// more changes it back.
inline void FlipBit(const std::string& path, int64_t place) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto from = place < 0 ? std::ios::end : std::ios::beg;
  file.seekg(place, from);
  const int byte = file.get();
  file.seekp(place, from);
  file.put(static_cast<char>(byte ^ 1));
}

class CheckpointsTest : public ::testing::Test {
 protected:
  ~CheckpointsTest() override { std::filesystem::remove_all(directory_); }

  // A server that was killed, if there was one, and another one.
  SavedStore& Restart(uint32_t keep = 3, bool fallback = false,
                      uint32_t full_every = 1) {
    saved_.reset();
    saved_ = std::make_unique<SavedStore>(
        directory_, keep, fallback,
        [this](const std::string& line) { log_.push_back(line); }, full_every);
    return *saved_;
  }
  static void CreateNamespace(SavedStore& at, const std::string& name,
                              const NamespaceConfig& config, uint64_t uid = 0) {
    ASSERT_OK(MakeNow(at.store(),
                      testing::CreateOf(name, config, OnExisting::kFail, uid)));
  }
  void CutOff(const std::string& file) const {
    std::filesystem::resize_file(absl::StrCat(directory_, "/", file), 1);
  }
  // The files of a checkpoint.
  std::vector<std::string> FilesOf(const std::string& name) const {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(
             absl::StrCat(directory_, "/", name))) {
      files.push_back(file.path());
    }
    return files;
  }

  const std::string directory_ = absl::StrCat(
      ::testing::TempDir(), "/checkpoints-",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  // Lines of all servers. Only one thread at a time makes them.
  std::vector<std::string> log_;
  std::unique_ptr<SavedStore> saved_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_CHECKPOINT_SAVED_STORE_H_
