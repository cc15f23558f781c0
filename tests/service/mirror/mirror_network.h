// Exchanges of several servers in this process, and what goes wrong between
// them.

#ifndef TENSORKV_TESTS_SERVICE_MIRROR_MIRROR_NETWORK_H_
#define TENSORKV_TESTS_SERVICE_MIRROR_MIRROR_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/device_link.h"
#include "service/mirror/mirror_exchange.h"

namespace tensorkv::testing {

// What becomes of one call.
enum class Fate { kArrives, kIsLost, kReplyIsLost, kReplyIsHeld };

// Servers "s0", "s1", ... Calls go by a thread of the server that is called.
// One that is lost ends with Unavailable. Thread-safe.
class MirrorNetwork {
 public:
  using Decide = std::function<Fate(uint32_t from, uint32_t to,
                                    const MirrorRequest& request)>;

  // `links` are those of the servers' devices, by server, or fewer.
  explicit MirrorNetwork(uint32_t num_servers,
                         MirrorTimes times = {.patience = absl::Seconds(30),
                                              .attempt = absl::Seconds(30)},
                         std::vector<DeviceLink*> links = {}) {
    links.resize(num_servers);
    for (uint32_t i = 0; i < num_servers; ++i) {
      threads_.push_back(std::make_unique<Executor>());
      exchanges_.push_back(std::make_unique<MirrorExchange>(
          MirrorExchange::Options{.times = times}, &alarms_, &backend_,
          links[i]));
    }
    Connect(num_servers);
  }
  ~MirrorNetwork() {
    Stop();
    // Calls that arrive reach the exchanges.
    threads_.clear();
    alarms_.Stop();
  }

  MirrorExchange* exchange(uint32_t server) { return exchanges_[server].get(); }

  // The first so many servers are the group from now on.
  void Connect(uint32_t num_servers) {
    std::vector<uint32_t> servers(num_servers);
    std::iota(servers.begin(), servers.end(), 0u);
    ConnectOnly(servers);
  }
  // These are, of which those that go on learn one after the other.
  void ConnectOnly(const std::vector<uint32_t>& servers) {
    std::vector<std::string> names;
    for (const uint32_t i : servers) names.push_back(absl::StrCat("s", i));
    for (uint32_t place = 0; place < servers.size(); ++place) {
      const uint32_t from = servers[place];
      exchanges_[from]->SetGroup(names, place, [&](const std::string& server) {
        uint32_t to = 0;
        while (names[to] != server) ++to;
        return std::make_shared<Peer>(this, from, servers[to]);
      });
    }
  }

  // From now on decides what becomes of calls.
  void SetFates(Decide decide) {
    MutexLock lock(&mutex_);
    decide_ = std::move(decide);
  }

  void AwaitHeldReply() {
    MutexLock lock(&mutex_);
    while (held_.empty()) changed_.Wait(&mutex_);
  }
  // What is held is lost, and what comes later arrives.
  void LoseReplies() {
    {
      MutexLock lock(&mutex_);
      for (auto& [id, response] : held_) {
        response = absl::UnavailableError("no answer");
      }
    }
    ReleaseReplies();
  }
  // Has what is held arrive, and what comes later.
  void ReleaseReplies() {
    std::vector<std::pair<uint64_t, absl::StatusOr<MirrorResponse>>> held;
    {
      MutexLock lock(&mutex_);
      decide_ = nullptr;
      held.swap(held_);
    }
    for (auto& [id, response] : held) End(id, std::move(response));
  }

  // Ends all that is under way: the stores may go.
  void Stop() {
    std::map<uint64_t, MirrorCallback> open;
    {
      MutexLock lock(&mutex_);
      is_stopped_ = true;
    }
    for (const auto& exchange : exchanges_) exchange->Stop();
    {
      MutexLock lock(&mutex_);
      open.swap(open_);
    }
    for (auto& [id, done] : open) {
      std::move(done)(absl::UnavailableError("the network ends"));
    }
  }

 private:
  class Peer final : public MirrorPeer {
   public:
    Peer(MirrorNetwork* network, uint32_t from, uint32_t to)
        : network_(*network), from_(from), to_(to) {}
    void Call(MirrorRequest request, absl::Duration timeout,
              MirrorCallback done) override {
      network_.Send(from_, to_, std::move(request), timeout, std::move(done));
    }

   private:
    MirrorNetwork& network_;
    const uint32_t from_;
    const uint32_t to_;
  };

  void Send(uint32_t from, uint32_t to, MirrorRequest request,
            absl::Duration timeout, MirrorCallback done) {
    Fate fate = Fate::kArrives;
    uint64_t id = 0;
    {
      MutexLock lock(&mutex_);
      if (!is_stopped_) {
        if (decide_) fate = decide_(from, to, request);
        id = ++last_id_;
        open_[id] = std::move(done);
      }
    }
    if (id == 0) return std::move(done)(absl::UnavailableError("stopped"));
    const auto lost =
        absl::UnavailableError(absl::StrCat("server s", to, ": no answer"));
    alarms_.Schedule(alarms_.Now() + timeout,
                     [this, id, lost] { End(id, lost); });
    if (fate == Fate::kIsLost) return End(id, lost);
    threads_[to]->Submit(
        [this, to, id, fate, lost, request = std::move(request)] {
          exchanges_[to]->Handle(
              request,
              [this, id, fate, lost](absl::StatusOr<MirrorResponse> response) {
                if (fate == Fate::kReplyIsLost) return End(id, lost);
                if (fate == Fate::kReplyIsHeld) {
                  return Hold(id, std::move(response));
                }
                End(id, std::move(response));
              });
        });
  }

  void Hold(uint64_t id, absl::StatusOr<MirrorResponse> response) {
    MutexLock lock(&mutex_);
    held_.emplace_back(id, std::move(response));
    changed_.SignalAll();
  }

  void End(uint64_t id, absl::StatusOr<MirrorResponse> response) {
    MirrorCallback done;
    {
      MutexLock lock(&mutex_);
      const auto open = open_.find(id);
      if (open == open_.end()) return;
      done = std::move(open->second);
      open_.erase(open);
    }
    std::move(done)(std::move(response));
  }

  CpuBackend backend_{/*num_threads=*/1};
  SteadyAlarms alarms_;
  Mutex mutex_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, MirrorCallback> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<uint64_t, absl::StatusOr<MirrorResponse>>> held_
      ABSL_GUARDED_BY(mutex_);
  CondVar changed_;
  Decide decide_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<MirrorExchange>> exchanges_;
  std::vector<std::unique_ptr<Executor>> threads_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_MIRROR_MIRROR_NETWORK_H_
