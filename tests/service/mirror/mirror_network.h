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
#include "google/protobuf/message.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/device_link.h"
#include "service/mirror/mirror_exchange.h"

namespace tensorkv::testing {

// What becomes of one call.
enum class Fate { kArrives, kIsLost, kReplyIsLost, kReplyIsHeld };

// The request, if it is one of that type, else null.
template <typename Request>
const Request* As(const google::protobuf::Message& request) {
  return dynamic_cast<const Request*>(&request);
}

// Servers "s0", "s1", ... Calls go by a thread of the server that is called.
// One that is lost ends with Unavailable. Thread-safe.
class MirrorNetwork {
 public:
  using Decide = std::function<Fate(uint32_t from, uint32_t to,
                                    const google::protobuf::Message& request)>;

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
  void LoseReplies() { EndHeld(absl::UnavailableError("no answer")); }
  // Has what is held arrive, and what comes later.
  void ReleaseReplies() { EndHeld(absl::OkStatus()); }

  // Ends all that is under way: the stores may go.
  void Stop() {
    OpenCalls open;
    {
      MutexLock lock(&mutex_);
      is_stopped_ = true;
    }
    for (const auto& exchange : exchanges_) exchange->Stop();
    {
      MutexLock lock(&mutex_);
      open.swap(open_);
    }
    for (const auto& [id, end] : open) {
      end(absl::UnavailableError("the network ends"));
    }
  }

 private:
  // Ends a call with the error; of what is held, OK stands for the reply.
  using EndCall = std::function<void(const absl::Status& error)>;
  using OpenCalls = std::map<uint64_t, EndCall>;

  class Peer final : public UniformMirrorPeer<Peer> {
   public:
    Peer(MirrorNetwork* network, uint32_t from, uint32_t to)
        : network_(*network), from_(from), to_(to) {}
    template <typename Request>
    void Send(Request request, absl::Duration timeout,
              MirrorCallback<Request> done) {
      network_.Send(from_, to_, std::move(request), timeout, std::move(done));
    }

   private:
    MirrorNetwork& network_;
    const uint32_t from_;
    const uint32_t to_;
  };

  template <typename Request>
  void Send(uint32_t from, uint32_t to, Request request, absl::Duration timeout,
            MirrorCallback<Request> done) {
    using Reply = absl::StatusOr<PeerResponse<Request>>;
    const auto shared =
        std::make_shared<MirrorCallback<Request>>(std::move(done));
    Fate fate = Fate::kArrives;
    uint64_t id = 0;
    {
      MutexLock lock(&mutex_);
      if (!is_stopped_) {
        if (decide_) fate = decide_(from, to, request);
        id = ++last_id_;
        open_[id] = [shared](const absl::Status& error) {
          MirrorCallback<Request>& callback = *shared;
          std::move(callback)(error);
        };
      }
    }
    if (id == 0) return std::move(*shared)(absl::UnavailableError("stopped"));
    const auto lost =
        absl::UnavailableError(absl::StrCat("server s", to, ": no answer"));
    // Only `open_` keeps what waits for the reply.
    const auto end = [this, id, kept = std::weak_ptr(shared)](Reply reply) {
      const OpenCalls::node_type open = Close(id);
      if (open.empty()) return;
      MirrorCallback<Request>& callback = *kept.lock();
      std::move(callback)(std::move(reply));
    };
    alarms_.Schedule(alarms_.Now() + timeout, [end, lost] { end(lost); });
    if (fate == Fate::kIsLost) return end(lost);
    threads_[to]->Submit(
        [this, to, fate, lost, end, request = std::move(request)] {
          exchanges_[to]->Handle(request, [this, fate, lost, end](Reply reply) {
            if (fate == Fate::kReplyIsLost) return end(lost);
            if (fate != Fate::kReplyIsHeld) return end(std::move(reply));
            Hold([end, reply](const absl::Status& error) {
              end(error.ok() ? reply : Reply(error));
            });
          });
        });
  }

  void Hold(EndCall end) {
    MutexLock lock(&mutex_);
    held_.push_back(std::move(end));
    changed_.SignalAll();
  }
  void EndHeld(const absl::Status& error) {
    std::vector<EndCall> held;
    {
      MutexLock lock(&mutex_);
      decide_ = nullptr;
      held.swap(held_);
    }
    for (const EndCall& end : held) end(error);
  }

  // The call is not open any more; empty if it was not.
  OpenCalls::node_type Close(uint64_t id) {
    MutexLock lock(&mutex_);
    return open_.extract(id);
  }

  CpuBackend backend_{/*num_threads=*/1};
  SteadyAlarms alarms_;
  Mutex mutex_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  OpenCalls open_ ABSL_GUARDED_BY(mutex_);
  std::vector<EndCall> held_ ABSL_GUARDED_BY(mutex_);
  CondVar changed_;
  Decide decide_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<MirrorExchange>> exchanges_;
  std::vector<std::unique_ptr<Executor>> threads_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_MIRROR_MIRROR_NETWORK_H_
